"""The lines between a Python client library and the checks: see ../README.md.

A library gives a class with `connect`, `subscribe`, `unsubscribe`, `publish` and `disconnect`; each takes the command as
a dict and returns the reply's fields, or raises. Commands run in threads of their own, so one may wait while others run.
"""

import json
import sys
import threading
import traceback

# No library call may hang the checks; they have a longer patience of their own.
PATIENCE_S = 15

_stdout_lock = threading.Lock()


def write(line):
    with _stdout_lock:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def message_event(peer, topic, payload, qos, retain, properties, dup=False):
    write(
        {
            "event": "message",
            "peer": peer,
            "topic": topic,
            "payload": bytes(payload).hex(),
            "qos": qos,
            "retain": retain,
            "dup": dup,
            "properties": {key: value for key, value in properties.items() if value is not None},
        }
    )


def closed_event(peer, reason):
    write({"event": "closed", "peer": peer, "reason": reason})


def event(kind, peer, **fields):
    """Any other event; what is None was not there."""
    there = {key: value for key, value in fields.items() if value is not None}
    write({"event": kind, "peer": peer, **there})


def run(peer_class):
    peers = {}

    def obey(command):
        try:
            name = command["peer"]
            if command["do"] == "connect":
                peers[name] = peer_class(name)
            fields = getattr(peers[name], command["do"])(command) or {}
            write({"reply": command["id"], **fields})
        except BaseException as error:  # every failure is an answer, none ends the puppet
            traceback.print_exc(file=sys.stderr)
            write({"reply": command["id"], "error": f"{type(error).__name__}: {error}"})

    write({"event": "ready"})
    for line in sys.stdin:
        threading.Thread(target=obey, args=(json.loads(line),), daemon=True).start()
