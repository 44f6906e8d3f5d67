#!/usr/bin/env python3
"""Does everything arrive when a quarter of all packets is lost? Publisher, subscriber and broker of this tree, at least once,
in the namespaces of `thalweg bench net`. Needs root.

    measure/lossy_delivery.py mqtt --messages 10000 --flows 10
    measure/lossy_delivery.py coap --messages 10000 --flows 50

Prints how long it took, how many messages were received, received again, and received behind a later one of their flow.
Exit code 1 if one is missing. With CoAP a flow has one message under way; the broker repeats notifications by measured round
trips (`coap.adaptive_timeout`), because RFC 7252's 2 to 3 s doubled would take hours for the same result.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

TREE = Path(__file__).resolve().parents[1]
URLS = {"mqtt": "mqtt://10.80.2.2", "coap": "coap://10.80.2.2"}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("protocol", choices=sorted(URLS))
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--flows", type=int, default=50)
    parser.add_argument("--payload", type=int, default=0, help="bytes, at least those of the two numbers")
    parser.add_argument("--loss", default="25%")
    parser.add_argument("--within", type=float, default=2700, help="seconds")
    parser.add_argument("--program", type=Path, default=TREE / "target" / "debug" / "thalweg")
    return parser.parse_args()


class Received:
    """What the subscriber printed: maybe a topic, then filling, flow and number."""

    def __init__(self) -> None:
        self.times: dict[tuple[str, int], int] = {}
        self.newest: dict[str, int] = {}
        self.late = 0

    def read(self, lines) -> None:
        for line in lines:
            words = line.split()
            if len(words) < 2 or not words[-1].isdigit():
                continue
            flow, number = words[-2], int(words[-1])
            self.times[flow, number] = self.times.get((flow, number), 0) + 1
            if self.times[flow, number] == 1:
                self.late += number < self.newest.get(flow, -1)
                self.newest[flow] = max(number, self.newest.get(flow, -1))


def main() -> int:
    args = arguments()
    name, folder, children = f"loss-{args.protocol}", tempfile.mkdtemp(), []

    def start(side: str, *command, **options) -> subprocess.Popen:
        inside = ["ip", "netns", "exec", f"thalweg-{name}-{side}", str(args.program), *map(str, command)]
        children.append(subprocess.Popen(inside, text=True, **options))
        return children[-1]

    subprocess.run([args.program, "bench", "net", "up", name, "--loss", args.loss], check=True)
    try:
        settings = ["websocket.enabled=false"]
        for protocol, port in (("mqtt", 1883), ("coap", 5683)):
            settings += [f"{protocol}.bind=0.0.0.0:{port}", f"{protocol}.anonymous=true"]
        settings = [f"listeners.{each}" for each in settings] + ["admin.enabled=false"]
        settings += ["coap.adaptive_timeout=true", "coap.nstart=16"]
        broker = start("br", "serve", "--data", folder, *(word for each in settings for word in ("--set", each)), stderr=subprocess.PIPE)
        while "ready" not in broker.stderr.readline():
            pass
        threading.Thread(target=lambda: list(broker.stderr), daemon=True).start()

        received = Received()
        connect = ["--url", URLS[args.protocol], "--qos", "1", "--connect-timeout", "120s"]
        topics = [f"loss/{flow}" for flow in range(args.flows)]
        subscriber = start("ep", "sub", *connect, *topics, stdout=subprocess.PIPE)
        threading.Thread(target=received.read, args=(subscriber.stdout,), daemon=True).start()
        # Observations are made one by one, some of them again and again.
        time.sleep(60)

        begun, publishers = time.monotonic(), []
        each = args.messages // args.flows
        for flow, topic in enumerate(topics):
            publisher = start("ep", "pub", *connect, "--stdin-lines", topic, stdin=subprocess.PIPE)
            publisher.stdin.write("".join(f"{flow} {number}".rjust(args.payload, ".").replace(f".{flow} ", f" {flow} ") + "\n" for number in range(each)))
            publisher.stdin.close()
            publishers.append(publisher)
        deadline = begun + args.within
        while time.monotonic() < deadline and any(one.poll() is None for one in publishers):
            time.sleep(0.2)
        published = time.monotonic() - begun
        while time.monotonic() < deadline and len(received.times) < each * args.flows:
            time.sleep(0.2)
        codes = sorted({str(one.poll()) for one in publishers})
        again = sum(times - 1 for times in received.times.values())
        print(
            f"{args.protocol}, {args.loss} of all packets lost: published in {published:.0f} s (exit codes {', '.join(codes)}), "
            f"received {len(received.times)} of {each * args.flows} in {time.monotonic() - begun:.0f} s, "
            f"{again} again, {received.late} behind a later one"
        )
        return 0 if len(received.times) == each * args.flows and codes == ["0"] else 1
    finally:
        for child in children:
            child.kill()
            child.wait()
        subprocess.run([args.program, "bench", "net", "down", name])
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
