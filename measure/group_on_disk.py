#!/usr/bin/env python3
"""A shared group at QoS 2 whose members have a session expiry, so that the journal is written between the steps of each
delivery: response times as multiples of the work-conserving limit (docs/bench.md, ADR 0030).

    measure/group_on_disk.py --program target/release/thalweg

Six members of 10, 10, 10, 20, 20 and 20 ms, exponential work, Poisson arrivals at 75 % load, default settings of the journal.
Members and publisher are processes of their own, below SCHED_FIFO where that is allowed. Prints one line per way of working
(before PUBREC, or after PUBREL as Paho does) and exits with 1 if a mean or a 99th percentile is above the bar.
"""

import argparse
import json
import math
import multiprocessing
import os
import random
import select
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from heapq import heappop, heappush
from pathlib import Path

TREE = Path(__file__).resolve().parents[1]
MEANS = (0.010, 0.010, 0.010, 0.020, 0.020, 0.020)
LOAD = 0.75
BAR = 1.20
TOPIC = b"work/item"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--program", type=Path, default=TREE / "target" / "release" / "thalweg")
    parser.add_argument("--seconds", type=float, default=20, help="of each run")
    parser.add_argument("--runs", type=int, default=3, help="of each way of working")
    parser.add_argument("--data", type=Path, help="folder on the disk to measure; default: below target")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


# --- MQTT 5, as much as this needs


def packet(head: int, body: bytes) -> bytes:
    length, rest = b"", len(body)
    while True:
        rest, low = rest >> 7, rest & 0x7F
        length += bytes([low | (0x80 if rest else 0)])
        if not rest:
            return bytes([head]) + length + body


def text(value: bytes) -> bytes:
    return len(value).to_bytes(2, "big") + value


class Line:
    """A connection and what came over it."""

    def __init__(self, port: int, client: str, expiry: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.input = b""
        properties = b"\x11" + expiry.to_bytes(4, "big")
        connect = text(b"MQTT") + b"\x05\x02\x00\x00" + bytes([len(properties)]) + properties + text(client.encode())
        self.socket.sendall(packet(0x10, connect))
        self.wait_for(0x20)

    def packets(self):
        """All whole packets that are there: head and body."""
        while len(self.input) >= 2:
            length, shift, at = 0, 0, 1
            while True:
                if at >= len(self.input):
                    return
                byte = self.input[at]
                length, shift, at = length | (byte & 0x7F) << shift, shift + 7, at + 1
                if byte < 0x80:
                    break
            if len(self.input) < at + length:
                return
            head, body = self.input[0], self.input[at : at + length]
            self.input = self.input[at + length :]
            yield head, body

    def read(self) -> None:
        more = self.socket.recv(65536)
        if not more:
            raise ConnectionError("the broker has closed the connection")
        self.input += more

    def wait_for(self, kind: int) -> bytes:
        while True:
            for head, body in self.packets():
                if head & 0xF0 == kind:
                    return body
            self.read()

    def answer(self, head: int, identifier: bytes) -> None:
        self.socket.sendall(packet(head, identifier))


def hurry() -> None:
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(5))
    except (OSError, AttributeError):
        pass


def member(port: int, number: int, mean: float, works_first: bool, ready, until, results) -> None:
    """Works on one message at a time; works before PUBREC, or after PUBREL."""
    hurry()
    line = Line(port, f"member-{number}", 3600)
    line.socket.sendall(packet(0x82, b"\x00\x01\x00" + text(b"$share/g/" + TOPIC) + b"\x02"))
    line.wait_for(0x90)
    ready.release()
    done, waiting, current, began = [], deque(), None, 0.0
    recorded = {}
    while True:
        now = time.monotonic()
        if current is not None and now >= current[2]:
            identifier, sequence, _ = current
            line.answer(0x50 if works_first else 0x70, identifier)
            done.append((sequence, now))
            current = None
        if current is None and waiting:
            identifier, sequence, work = waiting.popleft()
            current = (identifier, sequence, time.monotonic() + work * mean)
        if now > until.value > 0:
            break
        wait = 0.2 if current is None else max(0.0, current[2] - time.monotonic())
        if not select.select([line.socket], [], [], wait)[0]:
            continue
        line.read()
        for head, body in line.packets():
            if head & 0xF0 == 0x30:
                at = 2 + int.from_bytes(body[:2], "big")
                identifier, payload = body[at : at + 2], body[at + 3 + body[at + 2] :]
                sequence, work = payload.split()[:2]
                job = (identifier, int(sequence), float(work))
                if works_first:
                    waiting.append(job)
                else:
                    recorded[identifier] = job
                    line.answer(0x50, identifier)
            elif head == 0x62:
                if works_first:
                    line.answer(0x70, body[:2])
                elif body[:2] in recorded:
                    waiting.append(recorded.pop(body[:2]))
    results.send(done)


def publish(port: int, jobs, began, results) -> None:
    """Keeps to the times at which messages are due, however long answers take."""
    hurry()
    line = Line(port, "publisher", 0)
    start = time.monotonic() + 0.5
    began.value = start
    late, under_way = 0.0, 0

    def read() -> int:
        line.read()
        ended = 0
        for head, body in line.packets():
            if head & 0xF0 == 0x50:
                line.answer(0x62, body[:2])
            ended += head & 0xF0 == 0x70
        return ended

    for sequence, (at, work) in enumerate(jobs):
        while True:
            wait = start + at - time.monotonic()
            if wait <= 0:
                break
            if select.select([line.socket], [], [], wait)[0]:
                under_way -= read()
        late = max(late, -wait)
        identifier = (sequence % 65535 + 1).to_bytes(2, "big")
        payload = f"{sequence} {work:.9f} ".encode().ljust(100, b".")
        line.socket.sendall(packet(0x34, text(TOPIC) + identifier + b"\x00" + payload))
        under_way += 1
    deadline = time.monotonic() + 20
    while under_way > 0 and time.monotonic() < deadline:
        if select.select([line.socket], [], [], 0.2)[0]:
            under_way -= read()
    results.send((late, under_way))


# --- the limit, as crates/thalweg-sim/src/limit.rs has it


def central(jobs, part, rate):
    """Response times of one queue before all members, which leaves slow ones idle by a threshold."""
    order = sorted(range(len(MEANS)), key=lambda at: MEANS[at])
    events, queue, busy, done = [], deque(), [False] * len(MEANS), [0.0] * len(jobs)
    for number, (at, _) in enumerate(jobs):
        heappush(events, (at, 2, number))
    while events:
        now, kind, index = heappop(events)
        if kind == 1:
            busy[index] = False
        else:
            queue.append(index)
        while queue:
            rank = next((rank for rank, at in enumerate(order) if not busy[at]), None)
            if rank is None:
                break
            chosen = order[rank]
            own = MEANS[chosen]
            faster = [MEANS[at] for at in order[:rank] if MEANS[at] < own]
            share = part
            if part is None:
                share = min(1.0, max(0.0, 1.0 - rate / max(1e-9, sum(1 / mean for mean in faster))))
            ahead = sum(1 + math.floor((own - 2 * mean) / mean) if 2 * mean < own else 0 for mean in faster)
            if share > 0 and ahead * share >= len(queue):
                break
            job = queue.popleft()
            busy[chosen] = True
            done[job] = now + own * jobs[job][1]
            heappush(events, (done[job], 1, chosen))
    return [end - at for end, (at, _) in zip(done, jobs)]


def counted(times):
    times = times[len(times) // 10 :]
    return statistics.fmean(times), sorted(times)[math.ceil(len(times) * 0.99) - 1]


def limit(jobs, rate):
    family = [counted(central(jobs, part, rate)) for part in (0.0, 0.1, 0.25, 0.5, 1.0, None)]
    return min(mean for mean, _ in family), min(p99 for _, p99 in family)


# --- runs


GIVEN: set[int] = set()


def free_port() -> int:
    """A port that nothing listens on and that was not returned before."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        if port not in GIVEN:
            GIVEN.add(port)
            return port


class Broker:
    """A broker with a journal, on loopback, alone with MQTT."""

    # Before all others on the machine, where that is allowed.
    hurries = True

    def __init__(self, program: Path, folder: Path, settings=()) -> None:
        self.port = free_port()
        settings = [
            f"listeners.mqtt.bind=127.0.0.1:{self.port}",
            "listeners.websocket.enabled=false",
            "admin.enabled=false",
            "log.level=error",
            *settings,
        ]
        words = [word for setting in settings for word in ("--set", setting)]
        first = ["chrt", "--fifo", "5"] if self.hurries and shutil.which("chrt") and may_hurry() else []
        self.child = subprocess.Popen(
            [*first, str(program), "serve", "--data", str(folder / "data"), *words], stderr=subprocess.PIPE, text=True
        )
        said = []
        for line in self.child.stderr:
            said.append(line)
            if "ready" in line:
                return
        raise RuntimeError("the broker does not start: " + "".join(said[-3:]).strip())

    def stop(self) -> None:
        self.child.kill()
        self.child.wait()


def may_hurry() -> bool:
    return subprocess.run(["chrt", "--fifo", "5", "true"], stderr=subprocess.DEVNULL).returncode == 0


def run(program: Path, folder: Path, works_first: bool, seconds: float, seed: int):
    """Mean and 99th percentile as multiples of the limit, and by how much the publisher was late at the worst."""
    rate = LOAD * sum(1 / mean for mean in MEANS)
    chance, jobs, at = random.Random(seed), [], 0.0
    while at < seconds:
        at += chance.expovariate(rate)
        jobs.append((at, chance.expovariate(1.0)))
    broker = Broker(program, folder)
    context = multiprocessing.get_context("fork")
    ready, until, began = context.Semaphore(0), context.Value("d", 0.0), context.Value("d", 0.0)
    children, pipes = [], []
    try:
        for number, mean in enumerate(MEANS):
            near, far = context.Pipe()
            words = (broker.port, number, mean, works_first, ready, until, far)
            children.append(context.Process(target=member, args=words, daemon=True))
            pipes.append(near)
        for child in children:
            child.start()
        for _ in children:
            if not ready.acquire(timeout=10):
                raise RuntimeError("a member does not get in")
        near, far = context.Pipe()
        publisher = context.Process(target=publish, args=(broker.port, jobs, began, far), daemon=True)
        children.append(publisher)
        publisher.start()
        if not near.poll(seconds + 60):
            raise RuntimeError("the publisher does not come to its end")
        late, left = near.recv()
        until.value = time.monotonic() + 2
        done = {}
        for pipe in pipes:
            if not pipe.poll(30):
                raise RuntimeError("a member does not come to its end")
            for sequence, end in pipe.recv():
                if sequence in done:
                    raise RuntimeError(f"message {sequence} was worked on twice")
                done[sequence] = end - began.value
    finally:
        for child in children:
            child.kill()
        broker.stop()
    if left or len(done) != len(jobs):
        raise RuntimeError(f"{len(done)} of {len(jobs)} messages were worked on, {left} are not acknowledged")
    mean, p99 = counted([done[number] - at for number, (at, _) in enumerate(jobs)])
    best_mean, best_p99 = limit(jobs, rate)
    return mean / best_mean, p99 / best_p99, late


def measure(program: Path, seconds: float, runs: int, data: Path | None):
    """For each way of working: its name, mean, 99th percentile, worst lateness of the publisher in ms."""
    parent = data or TREE / "target"
    parent.mkdir(parents=True, exist_ok=True)
    for works_first in (True, False):
        results = []
        for seed in range(101, 101 + runs):
            folder = Path(tempfile.mkdtemp(prefix="group-on-disk-", dir=parent))
            try:
                results.append(run(program, folder, works_first, seconds, seed))
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        mean, p99 = (statistics.fmean(result[at] for result in results) for at in (0, 1))
        yield "work before PUBREC" if works_first else "work after PUBREL", mean, p99, max(r[2] for r in results) * 1e3


def main() -> int:
    args = arguments()
    if not args.program.is_file():
        sys.exit(f"{args.program} is not there: cargo build --release -p thalweg")
    rows = list(measure(args.program, args.seconds, args.runs, args.data))
    if args.json:
        print(json.dumps(rows))
    else:
        for way, mean, p99, late in rows:
            print(f"{way}: mean {mean:.2f}, p99 {p99:.2f} x the limit (publisher late by {late:.1f} ms at most)")
    return 0 if all(max(mean, p99) <= BAR for _, mean, p99, _ in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
