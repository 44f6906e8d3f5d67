#!/usr/bin/env python3
"""Three QoS 2 messages; the broker is killed (kill -9) in the middle of each. paho-mqtt on both sides prints what it sees.

Usage: qos2_kill_9.py [--thalweg PATH] [--port N]

1. The publisher has read PUBREC and not yet sent PUBREL.
2. The subscriber has read PUBLISH and not yet sent PUBREC.
3. The subscriber has read PUBREL and not yet sent PUBCOMP.

Each time the broker starts again on the data it left, both clients come back by themselves with the sessions they had, and
the exchange goes on where it was. Ends with 0 if each message reached the subscriber's program exactly once, in order.
"""
import argparse
import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import paho.mqtt.client as paho

HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE = 30
TOPIC = "plant/valve"
# Whose log line lets the axe fall, for each message.
AXES = [
    ("open", "publisher", "Received PUBREC"),
    ("half", "subscriber", "Sending PUBREC"),
    ("shut", "subscriber", "Received PUBREL"),
]


class Transcript:
    def __init__(self):
        self.begun, self.lock = time.monotonic(), threading.Lock()

    def line(self, who, what):
        with self.lock:
            print(f"{time.monotonic() - self.begun:7.3f}  {who:<10}  {what}", flush=True)


class Broker:
    """A process that is killed and started again on the same data and port."""

    def __init__(self, program, port, folder, transcript):
        self.transcript, self.process = transcript, None
        self.log = os.path.join(folder, "broker.log")
        self.command = [program, "serve", "--data", os.path.join(folder, "data"),
                        "--set", f"listeners.mqtt.bind=127.0.0.1:{port}", "--set", "listeners.websocket.enabled=false",
                        "--set", "admin.enabled=false"]

    def start(self):
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE
        while b"ready" not in open(self.log, "rb").read():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("the broker does not start:\n" + open(self.log).read())
            time.sleep(0.01)
        self.transcript.line("broker", f"ready (pid {self.process.pid})")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.transcript.line("broker", f"*** kill -9 {self.process.pid} ***")


class Client:
    """paho-mqtt, its packets in the transcript; `axe` is called in the middle of the line it waits for."""

    def __init__(self, name, port, transcript):
        self.name, self.transcript, self.axe = name, transcript, None
        self.connected, self.heard = threading.Event(), queue.Queue()
        self.paho = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id=name, clean_session=False)
        self.paho.on_log = self.on_log
        self.paho.on_connect = lambda *_: self.connected.set()
        self.paho.on_disconnect = lambda *_: self.connected.clear()
        self.paho.on_message = self.on_message
        self.paho.reconnect_delay_set(0.2, 0.2)
        self.paho.connect("127.0.0.1", port)
        self.paho.loop_start()

    def on_log(self, _client, _data, level, text):
        if level == paho.MQTT_LOG_DEBUG and text.startswith(("Sending", "Received")) and "PING" not in text:
            self.transcript.line(self.name, text)
            if self.axe and text.startswith(self.axe[0]):
                _, fall = self.axe
                self.axe = None
                fall()

    def on_message(self, _client, _data, message):
        text = message.payload.decode()
        self.transcript.line(self.name, f"=== the program gets `{text}` ===")
        self.heard.put(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    target = os.path.join(HERE, "../../target")
    built = [os.path.join(target, kind, "thalweg") for kind in ("release", "debug")]
    found = next((path for path in built if os.path.exists(path)), shutil.which("thalweg"))
    parser.add_argument("--thalweg", default=os.environ.get("THALWEG_BIN", found))
    parser.add_argument("--port", type=int, default=0)
    args = parser.parse_args()
    if not args.thalweg:
        raise SystemExit("build it first: cargo build --release")
    port = args.port or free_port()
    folder = tempfile.mkdtemp(prefix="thalweg-qos2-")
    transcript = Transcript()
    broker = Broker(args.thalweg, port, folder, transcript)
    try:
        broker.start()
        heard = exchange(broker, port, transcript)
    finally:
        if broker.process:
            broker.process.kill()
        shutil.rmtree(folder, ignore_errors=True)
    wanted = [text for text, _, _ in AXES]
    print(f"published {wanted}, got {heard}: " + ("exactly once, in order" if heard == wanted else "WRONG"))
    return 0 if heard == wanted else 1


def exchange(broker, port, transcript):
    """Publishes the messages, the axe falling in each; what the subscriber's program got."""
    subscriber, publisher = Client("subscriber", port, transcript), Client("publisher", port, transcript)
    for client in (subscriber, publisher):
        if not client.connected.wait(PATIENCE):
            raise SystemExit("a client is not accepted")
    subscribed = threading.Event()
    subscriber.paho.on_subscribe = lambda *_: subscribed.set()
    subscriber.paho.subscribe(TOPIC, 2)
    if not subscribed.wait(PATIENCE):
        raise SystemExit("no SUBACK")
    heard = []
    for text, whose, line in AXES:
        fallen = threading.Event()

        def fall():
            broker.kill()
            # Both come back when it runs again, and not before.
            subscriber.connected.clear()
            publisher.connected.clear()
            fallen.set()

        (publisher if whose == "publisher" else subscriber).axe = (line, fall)
        sent = publisher.paho.publish(TOPIC, text, qos=2)
        if not fallen.wait(PATIENCE):
            raise SystemExit(f"nobody saw `{line}`")
        broker.start()
        if not (subscriber.connected.wait(PATIENCE) and publisher.connected.wait(PATIENCE)):
            raise SystemExit("a client does not come back")
        sent.wait_for_publish(PATIENCE)
        try:
            heard.append(subscriber.heard.get(timeout=PATIENCE))
        except queue.Empty:
            break
    # What comes twice comes soon: all exchanges end before a last message that everybody waits for.
    publisher.paho.publish(TOPIC, "mark", qos=2).wait_for_publish(PATIENCE)
    try:
        while (text := subscriber.heard.get(timeout=PATIENCE)) != "mark":
            heard.append(text)
    except queue.Empty:
        heard.append("(the mark never came)")
    for client in (publisher, subscriber):
        client.paho.disconnect()
        client.paho.loop_stop()
    return heard


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


if __name__ == "__main__":
    sys.exit(main())
