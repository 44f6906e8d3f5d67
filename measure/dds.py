#!/usr/bin/env python3
"""The bars of the bridge into DDS: Cyclone DDS -> Thalweg -> Cyclone DDS beside Cyclone DDS alone, on loopback.

    cargo build --release --features dds && measure/dds.py                 # some 8 minutes
    measure/dds.py --only latency,crowd                                    # a part
    measure/dds.py --short --program target/debug/thalweg                  # some 2 minutes, to see that all of it works

| part    | what                                                                                                      |
|---------|-----------------------------------------------------------------------------------------------------------|
| rates   | 64 B reliable and best effort, 1 MB: ddsperf in one domain, Thalweg in two, ddsperf in the other; memory  |
| mqtt    | 64 B reliable from ddsperf to a subscriber of MQTT, against ddsperf to ddsperf                            |
| latency | 1,000 samples a second from Python to Python, against the same without Thalweg                            |
| crowd   | 500 topics, 2,000 endpoints of 20 participants: time until each has its opposite, memory, idle processor  |
| gone    | a reliable reader is killed at 4 MB/s: the longest silence of other readers, and of subscribers of MQTT   |

Needs ddsperf (Debian: cyclonedds-tools) and a Python with the package cyclonedds (THALWEG_DDS_PYTHON). Medians of three runs. The broker
has the priority of its peers. Prints a table at the end, also when a part fails. Exit code 1 if a bar is missed or a part did not run.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from group_on_disk import Broker, Line, packet, text

TREE = Path(__file__).resolve().parents[1]
PARTS = ("rates", "mqtt", "latency", "crowd", "gone")
# Domains that are not in use on this machine: of writers, and of readers.
HERE, THERE = 71, 72
# Title, options of ddsperf, size, bar, whether all must come.
RATES = (
    ("64 B reliable", [], "64", 0.30, True),
    ("64 B best effort", ["-u"], "64", 0.15, False),
    ("1 MB reliable", [], "1MB", 0.50, True),
)
XML = """<CycloneDDS><Domain id='any'><General><Interfaces><NetworkInterface address='127.0.0.1' multicast='false'/></Interfaces>
<AllowMulticast>false</AllowMulticast></General><Discovery><ParticipantIndex>auto</ParticipantIndex>
<MaxAutoParticipantIndex>30</MaxAutoParticipantIndex><Peers><Peer address='127.0.0.1'/></Peers></Discovery></Domain></CycloneDDS>"""


class NotRun(Exception):
    """Why a part cannot be measured here."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=TREE / "target" / "release" / "thalweg", help="built with --features dds")
    parser.add_argument("--python", default=os.environ.get("THALWEG_DDS_PYTHON", sys.executable))
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--short", action="store_true", help="one run of each, a few seconds long")
    args = parser.parse_args()
    args.seconds, args.runs = (4, 1) if args.short else (10, 3)
    return args


class Thalweg(Broker):
    """A broker in both domains."""

    # Its peers have the same processors: of what a broker sends that goes before them the reader would lose most.
    hurries = False

    def __init__(self, args, folder: Path, *settings: str) -> None:
        own = ["dds.enabled=true", f"dds.domain={HERE}", f"dds.second_domain={THERE}", "dds.message_bytes_max=16MiB"]
        super().__init__(args.program, folder, ["journal.enabled=false", *own, *settings])

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        self.stop()

    def resident(self) -> float:
        """MiB."""
        status = Path(f"/proc/{self.child.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s*(\d+)", status)[1]) / 1024

    def worked(self) -> float:
        """Seconds of a processor so far."""
        fields = Path(f"/proc/{self.child.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Peer:
    """A process of dds_peers.py."""

    def __init__(self, args, role: str, domain: int, *more) -> None:
        script = Path(__file__).with_name("dds_peers.py")
        words = [args.python, str(script), role, str(domain), XML, *map(str, more)]
        self.child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def says(self, key: str):
        for line in self.child.stdout:
            said = json.loads(line)
            if key in said:
                return said
        raise NotRun(f"{self.child.args[2]} ended without a word")

    def ends(self, key: str):
        self.child.stdin.close()
        said = self.says(key)
        self.child.wait(30)
        return said

    def kill(self) -> None:
        self.child.kill()
        self.child.wait()


# --- ddsperf


def ddsperf(domain: int, options: list[str], mode: list[str], seconds: float) -> subprocess.Popen:
    if shutil.which("ddsperf") is None:
        raise NotRun("ddsperf is not there: apt-get install cyclonedds-tools")
    words = ["ddsperf", "-i", str(domain), "-D", str(seconds), *options, *mode]
    return subprocess.Popen(words, env=os.environ | {"CYCLONEDDS_URI": XML}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


SUB_LINE = re.compile(r"total (\d+) lost (\d+) delta (\d+) lost \d+ rate ([\d.]+) kS/s")


def perf(options: list[str], size: str, reader: int, seconds: float) -> tuple[float, int]:
    """Samples a second and how many were lost, from ddsperf to ddsperf."""
    # Begins first and ends last: what is counted is while both are there.
    sub = ddsperf(reader, options, ["sub"], seconds + 3)
    time.sleep(1)
    pub = ddsperf(HERE, options, ["pub", "size", size], seconds)
    said, _ = sub.communicate(timeout=seconds + 60)
    pub.communicate(timeout=60)
    lines = [(int(lost), float(rate) * 1e3) for _, lost, _, rate in SUB_LINE.findall(said)]
    # The first and the last second are not whole, nor is the one in which discovery ended.
    rates = [rate for _, rate in lines][2:-1] or [0.0]
    return statistics.median(rates), lines[-1][0] if lines else 0


def measure_rates(args, folder: Path):
    for title, options, size, bar, is_whole in RATES:
        direct, through, lost, resident = [], [], 0, 0.0
        for run in range(args.runs):
            direct.append(perf(options, size, HERE, args.seconds)[0])
            with Thalweg(args, folder / f"{title}{run}", "dds.allow=DDSPerfRDataKS/#,DDSPerfUDataKS/#") as broker:
                rate, missing = perf(options, size, THERE, args.seconds)
                resident = max(resident, broker.resident())
            through.append(rate)
            lost += missing
        one, other = statistics.median(direct), statistics.median(through)
        told = f"{other / max(one, 1):.2f} x: {other:,.0f}/s, direct {one:,.0f}/s, {lost} lost"
        yield title, f"{bar:.2f} x" + (", 0 lost" if is_whole else ""), told, other >= bar * one > 0 and not (is_whole and lost)
        # Readers of ddsperf keep all, and what they have acknowledged is no more than is under way.
        yield f"memory after {title}", "256 MiB", f"{resident:.0f} MiB", resident <= 256


def count_mqtt(line: Line, seconds: float) -> tuple[float, int]:
    """Publishes a second, and how many are missing by the numbers in their payloads. All are of one length."""
    line.socket.settimeout(0.5)
    buffer, frames, numbers, began, last = bytearray(line.input), 0, [], 0.0, 0.0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            buffer += line.socket.recv(1 << 20)
        except TimeoutError:
            continue
        # Head, length in one byte, topic, no properties; the number is behind four bytes of encapsulation.
        length = 2 + buffer[1] if len(buffer) > 1 else len(buffer) + 1
        many = len(buffer) // length
        if many:
            payload = 4 + int.from_bytes(buffer[2:4], "big") + line.skips
            numbers += [int.from_bytes(buffer[at + payload + 4 :][:4], "little") for at in (0, (many - 1) * length)]
            last = time.monotonic()
            began, frames = began or last, frames + many
            del buffer[: many * length]
    if not frames:
        return 0.0, 0
    return frames / max(last - began, 1e-9), numbers[-1] - numbers[0] + 1 - frames


def subscriber(port: int, filter_: str) -> Line:
    """At QoS 0 and of MQTT 3.1.1: each publish is a topic and a payload."""
    line = Line.__new__(Line)
    import socket

    line.socket, line.input, line.skips = socket.create_connection(("127.0.0.1", port)), b"", 0
    line.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    line.socket.sendall(packet(0x10, text(b"MQTT") + b"\x04\x02\0\0" + text(b"counts")))
    line.wait_for(0x20)
    line.socket.sendall(packet(0x82, b"\0\1" + text(filter_.encode()) + b"\0"))
    line.wait_for(0x90)
    return line


def measure_mqtt(args, folder: Path):
    direct, through, lost = [], [], 0
    for run in range(args.runs):
        direct.append(perf([], "64", HERE, args.seconds)[0])
        with Thalweg(args, folder / str(run), "dds.allow=DDSPerfRDataKS/#") as broker:
            line = subscriber(broker.port, "DDSPerfRDataKS/#")
            pub = ddsperf(HERE, [], ["pub", "size", "64"], args.seconds)
            rate, missing = count_mqtt(line, args.seconds + 2)
            pub.communicate(timeout=60)
            line.socket.close()
        through.append(rate)
        lost += missing
    one, other = statistics.median(direct), statistics.median(through)
    told = f"{other / max(one, 1):.2f} x: {other:,.0f}/s, direct {one:,.0f}/s, {lost} lost"
    yield "64 B reliable to MQTT, QoS 0", "0.35 x, 0 lost", told, other >= 0.35 * one > 0 and not lost


# --- Python


def latencies(args, reader_domain: int) -> list[float]:
    reader = Peer(args, "read", reader_domain, "Latency")
    reader.says("reading")
    writer = Peer(args, "write", HERE, "Latency", 1000, 64)
    writer.says("matched")
    time.sleep(1 + args.seconds)
    writer.ends("written")
    came = reader.ends("came")["came"]
    # What came in the first second is warming up.
    first = came[0][1] + 1_000_000_000 if came else 0
    return [(at - sent) / 1e3 for _, sent, at in came if sent > first]


def measure_latency(args, folder: Path):
    middles: dict[str, list[float]] = {"direct": [], "through": []}
    for run in range(args.runs):
        middles["direct"].append(statistics.median(latencies(args, HERE) or [float("inf")]))
        with Thalweg(args, folder / str(run)):
            middles["through"].append(statistics.median(latencies(args, THERE) or [float("inf")]))
    one, other = (statistics.median(it) for it in middles.values())
    yield "p50 at 1,000/s", "direct + 150 us", f"{other:.0f} us, direct {one:.0f} us: + {other - one:.0f} us", other <= one + 150


def measure_crowd(args, folder: Path):
    topics, participants = (50, 5) if args.short else (500, 20)
    with Thalweg(args, folder / "idle", "dds.second_domain=off") as broker:
        alone = broker.resident()
    crowd = Peer(args, "crowd", HERE, participants, topics)
    try:
        crowd.says("made")
        began = time.monotonic_ns()
        with Thalweg(args, folder / "crowd", "dds.second_domain=off") as broker:
            late = threading.Timer(60, broker.stop)
            late.start()
            found = {"found": 0}
            while found["found"] < 2 * topics:
                found = crowd.says("found")
                if late.finished.is_set():
                    raise NotRun(f"{found['found']} of {2 * topics} endpoints within 60 s")
            late.cancel()
            seconds = (found["last"] - began) / 1e9
            yield f"{topics} topics, {4 * topics} endpoints of {participants} participants: all have their opposite", "5 s", f"{seconds:.1f} s from the broker's start", seconds <= 5
            time.sleep(3)
            resident, before, span = broker.resident(), broker.worked(), 5 if args.short else 20
            yield "memory with them", "60 MiB", f"{resident:.0f} MiB, {alone:.0f} without them", resident <= 60
            time.sleep(span)
            share = (broker.worked() - before) / span
            yield "idle processor with them", "2 %", f"{share:.1%} of a core over {span} s", share <= 0.02
    finally:
        crowd.kill()


def measure_gone(args, folder: Path):
    """Cyclone DDS gives a participant a lease of 10 s."""
    lease, spans = 10, []
    with Thalweg(args, folder / "gone") as broker:
        line = subscriber(broker.port, "Gone")
        readers = {topic: Peer(args, "read", THERE, topic) for topic in ("Gone", "Other")}
        victim = Peer(args, "read", THERE, "Gone")
        [reader.says("reading") for reader in (*readers.values(), victim)]
        writers = [Peer(args, "write", HERE, topic, 500, 8000) for topic in readers]
        [writer.says("matched") for writer in writers]
        heard, ends = [], threading.Event()

        def listen() -> None:
            line.socket.settimeout(0.2)
            while not ends.is_set():
                try:
                    if line.socket.recv(1 << 20):
                        heard.append(time.monotonic_ns())
                except TimeoutError:
                    pass

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        time.sleep(3)
        killed = time.monotonic_ns()
        victim.kill()
        time.sleep(5 if args.short else lease + 8)
        # Readers go on until what was written has come.
        written = [writer.ends("written") for writer in writers]
        time.sleep(1)
        ends.set()
        listener.join(5)
        for topic, reader in readers.items():
            came = reader.ends("came")["came"]
            after = [at for _, _, at in came if at >= killed]
            missing = came[-1][0] - came[0][0] + 1 - len(came) if came else 0
            spans.append((f"reader of {'the same topic' if topic == 'Gone' else 'another topic'}", after, f", {missing} lost of {len(came) + missing}"))
        spans.append(("subscriber of MQTT", [at for at in heard if at >= killed], ""))
        for who, after, more in spans:
            gap = max((later - earlier for earlier, later in zip([killed, *after], after)), default=float("inf")) / 1e9
            yield f"longest silence of a {who} after a reader was killed", f"{lease} s", f"{gap * 1e3:.0f} ms{more}", gap <= lease
        longest = max(it["longest_ms"] for it in written)
        yield "longest write of a writer", f"{lease} s", f"{longest:.0f} ms", longest <= lease * 1e3


def main() -> int:
    args = arguments()
    parts = args.only.split(",")
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        sys.exit(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    if not args.program.is_file():
        sys.exit(f"{args.program} is not there: cargo build --release --features dds")
    measures = dict(zip(PARTS, (measure_rates, measure_mqtt, measure_latency, measure_crowd, measure_gone)))
    rows, load = [], os.getloadavg()[0]
    for part in parts:
        folder = Path(tempfile.mkdtemp(prefix=f"dds-{part}-"))
        began = time.monotonic()
        try:
            for row in measures[part](args, folder):
                rows.append((part, *row))
                print(f"{part}: {row[0]}: {row[2]}", file=sys.stderr)
        except KeyboardInterrupt:
            rows.append((part, "interrupted", "", "", False))
            break
        except Exception as why:  # noqa: BLE001: the other parts are worth their figures
            rows.append((part, "not run", "", f"{type(why).__name__}: {why}", False))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            print(f"{part}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    print(f"\n{args.program}, {args.runs} runs of {args.seconds} s, load average before the first {load:.1f}\n")
    print("| part | what | bar | measured | |\n|---|---|---|---|---|")
    for part, what, bar, told, held in rows:
        print(f"| {part} | {what} | {bar} | {told} | {'held' if held else '**missed**'} |")
    return 0 if all(row[-1] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
