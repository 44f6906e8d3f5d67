#!/usr/bin/env python3
"""The bars of the two mending steps that want a quiet machine and an optimised build, one after the other, on loopback:

    cargo build --release -p thalweg -p thalweg-bench && measure/bars_of_mend.py            # some 35 minutes
    measure/bars_of_mend.py --only log-in,silent,g1                        # a part
    measure/bars_of_mend.py --short                                        # some 5 minutes, to see that all of it works

| part    | what                                                                                              |
|---------|---------------------------------------------------------------------------------------------------|
| log-in  | right passwords while one address sends 500 wrong ones a second: from there, and from elsewhere   |
| silent  | 5,000 connections of one address that say nothing, or stop half-way in AMQP: newcomers from elsewhere |
| memory  | RSS under each abuse with limits.memory_bytes_max=64MiB                                           |
| crash   | kill -9 with redirects and dead letters: what was confirmed and is lost                           |
| c1      | 200 bodies of 2,000 B over 25 ms each way: CoAP against MQTT                                      |
| g1      | a shared group at QoS 2 on disk (group_on_disk.py)                                                |
| l2      | the client's choice at 20 % loss, four cells, median of five runs; needs root and nftables        |

Prints one table at the end, also when a part fails or Ctrl-C ends it. Exit code 1 if a bar is missed or a part did not run.
"""

import argparse
import csv
import os
import re
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from group_on_disk import BAR, Broker, free_port, measure, packet, text

TREE = Path(__file__).resolve().parents[1]
PARTS = ("log-in", "silent", "memory", "crash", "c1", "g1", "l2")
ATTACKER, OTHER = "127.0.0.1", "127.0.0.2"


class NotRun(Exception):
    """Why a part cannot be measured here."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=TREE / "target" / "release" / "thalweg")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--short", action="store_true")
    return parser.parse_args()


# --- connections byte by byte


def connect_from(address: str, port: int) -> socket.socket:
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    connection.settimeout(10)
    connection.bind((address, 0))
    connection.connect(("127.0.0.1", port))
    return connection


def mqtt_connect(client: str, user: str = "", password: str = "") -> bytes:
    flags, names = 0x02, b""
    if user:
        flags, names = 0xC2, text(user.encode()) + text(password.encode())
    return packet(0x10, text(b"MQTT") + bytes([4, flags]) + b"\0\0" + text(client.encode()) + names)


def log_in(address: str, port: int, client: str, user: str = "", password: str = "") -> float:
    """Seconds from connecting to a CONNACK that lets in."""
    began = time.monotonic()
    with connect_from(address, port) as connection:
        connection.sendall(mqtt_connect(client, user, password))
        answer = connection.recv(4)
        if answer != b"\x20\x02\0\0":
            raise ConnectionError(f"CONNACK is {answer.hex() or 'missing'}")
        return time.monotonic() - began


AMQP_HEADER = b"AMQP\0\0\x09\1"


def amqp_log_in(address: str, port: int) -> float:
    """Seconds from connecting to connection.open-ok."""

    def method(class_id: int, number: int, rest: bytes) -> bytes:
        body = class_id.to_bytes(2, "big") + number.to_bytes(2, "big") + rest
        return b"\1\0\0" + len(body).to_bytes(4, "big") + body + b"\xce"

    began = time.monotonic()
    with connect_from(address, port) as connection:
        start_ok = method(10, 11, b"\0\0\0\0\5PLAIN\0\0\0\x0c\0guest\0guest\5en_US")
        tune_ok = method(10, 31, b"\x07\xff\0\2\0\0\0\0")
        connection.sendall(AMQP_HEADER + start_ok + tune_ok + method(10, 40, b"\1/\0\0"))
        said = b""
        while b"\0\x0a\0\x29" not in said:
            more = connection.recv(4096)
            if not more:
                raise ConnectionError("closed before connection.open-ok")
            said += more
        return time.monotonic() - began


def each(times: list[float]) -> str:
    return f"median {statistics.median(times) * 1e3:.1f} ms, longest {max(times) * 1e3:.0f} ms of {len(times)}"


# --- parts: each yields (what, bar, measured, whether it held; None: told and not judged)


def measure_log_in(args, folder: Path):
    users, good = folder / "users", [f"good{number}" for number in range(8)]
    for user in good:
        words = [str(args.program), "passwd", str(users), user, "--stdin"]
        subprocess.run(words, input="right\n", text=True, check=True, stderr=subprocess.DEVNULL)
    settings = ["listeners.mqtt.anonymous=false", f"access.password_file={users}"]
    seconds = 5 if args.short else 25
    for flood, is_judged in (("one user", True), ("random users", True)):
        broker = Broker(args.program, folder / flood, settings)
        ends, sent, lock = threading.Event(), [0, 0], threading.Lock()

        def attack(share: float) -> None:
            due = time.monotonic()
            while not ends.is_set():
                due = max(due + 1 / share, time.monotonic() - 0.2)
                time.sleep(max(0.0, due - time.monotonic()))
                user = "good0" if flood == "one user" else f"u{os.urandom(4).hex()}"
                try:
                    with connect_from(ATTACKER, broker.port) as connection:
                        connection.sendall(mqtt_connect(os.urandom(4).hex(), user, os.urandom(4).hex()))
                    failed = 0
                except OSError:
                    failed = 1
                with lock:
                    sent[failed] += 1

        attackers = [threading.Thread(target=attack, args=(125,), daemon=True) for _ in range(4)]
        try:
            [attacker.start() for attacker in attackers]
            began = time.monotonic()
            time.sleep(2)
            times: dict[str, list[float]] = {OTHER: [], ATTACKER: []}
            number, until = 0, time.monotonic() + seconds
            while time.monotonic() < until:
                for address, taken in times.items():
                    number += 1
                    user = good[1 + number % (len(good) - 1)]
                    try:
                        taken.append(log_in(address, broker.port, f"client{number}", user, "right"))
                    except OSError:
                        taken.append(float("inf"))
                time.sleep(0.2)
            rate = sent[0] / (time.monotonic() - began)
        finally:
            ends.set()
            [attacker.join(15) for attacker in attackers]
            broker.stop()
        for address, taken in times.items():
            where = "another address" if address == OTHER else "the same address"
            failed = taken.count(float("inf"))
            told = each([it for it in taken if it != float("inf")] or [0.0])
            told += f", {failed} refused" if failed else ""
            what = f"log-in from {where} beside {rate:.0f} wrong ones/s ({flood})"
            yield what, "1 s", told, max(taken) <= 1.0 if is_judged else None


def measure_silent(args, folder: Path):
    many = 500 if args.short else 5000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < many + 1000:
        raise NotRun(f"the hard limit of open files is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    free_amqp = free_port()
    broker = Broker(args.program, folder, [f"listeners.amqp.bind=127.0.0.1:{free_amqp}"])
    try:
        for name, port, first, newcomer in (
            ("silent", broker.port, b"", lambda number: log_in(OTHER, broker.port, f"newcomer{number}")),
            ("half-open AMQP", free_amqp, AMQP_HEADER, lambda number: amqp_log_in(OTHER, free_amqp)),
        ):
            held, times = [], []
            for _ in range(many):
                connection = connect_from(ATTACKER, port)
                try:
                    connection.sendall(first)
                except OSError:
                    pass
                held.append(connection)
            for number in range(50):
                try:
                    times.append(newcomer(number))
                except OSError:
                    times.append(float("inf"))
                # The attacker goes on: what was closed comes again.
                held.append(connect_from(ATTACKER, port))
            [connection.close() for connection in held]
            got = [it for it in times if it != float("inf")]
            told = f"{len(got)} of 50 got in, {each(got or [0.0])}"
            yield f"newcomers beside {many} connections that are {name}", "100 ms", told, max(times) <= 0.1
    finally:
        broker.stop()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def tests(args, filters: list[str], within: float, env: dict[str, str], more: list[str]) -> str:
    """What tests of thalweg-tests print, run with the program that is measured."""
    if shutil.which("cargo") is None:
        raise NotRun("cargo is not there")
    words = ["cargo", "test", "--quiet", "-p", "thalweg-tests", "--test", "all", "--", *filters, "--nocapture", *more]
    env = os.environ | {"THALWEG_BIN": str(args.program.resolve())} | env
    try:
        done = subprocess.run(words, cwd=TREE, env=env, timeout=within, text=True, capture_output=True)
    except subprocess.TimeoutExpired as late:
        raise NotRun(f"did not end within {within:.0f} s: {' '.join(filters)}") from late
    if "test result" not in done.stdout:
        raise NotRun((done.stderr.strip().splitlines() or ["no tests ran"])[-1])
    return done.stdout + "\n" + done.stderr


def measure_memory(args, _):
    seconds = 3 if args.short else 60
    filters = ["abuse::memory::", "abuse::buffers::", "abuse::connections::handshakes_that_stop_half_way"]
    env = {"THALWEG_ABUSE_SECONDS": str(seconds)}
    said = tests(args, filters, 20 * seconds + 900, env, ["--test-threads=1"])
    peaks: dict[str, int] = {}
    # One that fails has said its peak before.
    for line in (r"^(.+): the broker grew by .*, at most (\d+) KiB; pair", r"^(.+): \d+ KiB held, .* (\d+) KiB at most"):
        for what, peak in re.findall(line, said, re.M):
            peaks[what] = max(int(peak), peaks.get(what, 0))
    for what, peak in peaks.items():
        yield f"{what}, {seconds} s: peak RSS", "160 MiB", f"{peak / 1024:.0f} MiB", peak <= 160 << 10
    failed = re.findall(r"^test (\S+) \.\.\. FAILED", said, re.M)
    failed += re.findall(r"^    (abuse::\S+)$", said, re.M)
    if failed:
        yield "abuse tests", "all pass", "failed: " + ", ".join(sorted(set(failed))), False


def measure_crash(args, _):
    seconds = 15 if args.short else 200
    env = {"THALWEG_CRASH_SECONDS": str(seconds), "THALWEG_CRASH_SEED": "77"}
    said = tests(args, ["crash::queues::ways::for_minutes"], seconds + 900, env, ["--exact", "--ignored"])
    told = " ".join(line.strip() for line in said.splitlines() if re.search(r"kill|confirm|lost", line))
    kills = max((int(found) for found in re.findall(r"(\d+) kills", said)), default=0)
    is_clean = "test result: ok. 1 passed" in said
    is_enough = kills >= (1 if args.short else 200)
    if not is_clean:
        story = TREE / "target" / "bars-of-mend-crash.txt"
        story.write_text(said)
        told = f"{story}: {told}"
    yield "redirects and dead letters, kill -9", "0 lost, 200 kills", told[:300] or "no figures", is_clean and is_enough


def measure_c1(args, _):
    test = "interop::coap_tool::two_hundred_bodies_of_our_client_arrive_over_a_network_with_delay"
    ratios, told = [], ""
    for _ in range(1 if args.short else 5):
        said = tests(args, [test], 600, {}, ["--exact", "--ignored"])
        found = re.search(r"MQTT ([\d.]+)(m?s), CoAP ([\d.]+)(m?s)", said)
        if not found:
            raise NotRun("the test says no figures: " + (said.strip().splitlines() or [""])[-1])
        mqtt, coap = (float(found[at]) * (1e-3 if found[at + 1] == "ms" else 1) for at in (1, 3))
        ratios.append((coap / mqtt, f"MQTT {mqtt * 1e3:.0f} ms, CoAP {coap * 1e3:.0f} ms"))
    ratio, told = sorted(ratios)[len(ratios) // 2]
    yield "200 bodies of 2,000 B, 25 ms each way", "3 x MQTT", f"{ratio:.2f} x (median of {len(ratios)}): {told}", ratio <= 3


def measure_g1(args, folder: Path):
    seconds, runs = (4, 1) if args.short else (20, 3)
    for way, mean, p99, late in measure(args.program, seconds, runs, folder):
        told = f"mean {mean:.2f}, p99 {p99:.2f} (publisher late by {late:.1f} ms at most)"
        yield f"QoS 2 group on disk at 75 % load, {way}", f"{BAR:.2f} x the limit", told, max(mean, p99) <= BAR


def measure_l2(args, folder: Path):
    for tool in ("ip", "nft", "unshare"):
        if shutil.which(tool) is None:
            raise NotRun(f"{tool} is not there: thalweg bench doctor --install")
    step, repeats = (10, 1) if args.short else (120, 5)
    out = folder / "E2d"
    words = ["bench", "suite", "E2d", "--losses", "20%", "--objective", "latency", "--step", f"{step}s", "--quiet"]
    words += ["--payload", "60B,2000B", "--delay", "25ms,75ms", "--repeats", str(repeats), "--abreast", "20", "--out", str(out)]
    try:
        done = subprocess.run([str(args.program), *words], timeout=1800, text=True, capture_output=True)
    except subprocess.TimeoutExpired as late:
        raise NotRun("E2d did not end within 1800 s") from late
    if not (out / "trials.csv").is_file():
        raise NotRun((done.stderr.strip().splitlines() or ["E2d says nothing"])[-1])
    cells: dict[tuple[int, int], dict[str, list[float]]] = {}
    with open(out / "trials.csv", newline="") as file:
        for trial in csv.DictReader(file):
            # Times of messages that left late are told, too: late is what this machine is, not the choice.
            if trial["verdict"] in ("valid", "generator-limited") and trial["resp_mean_us"]:
                cell = cells.setdefault((int(trial["payload_bytes"]), int(float(trial["delay_us"]))), {})
                way = trial["publish"] if "adaptive=" not in trial["axes"] else "chosen"
                cell.setdefault(way, []).append(float(trial["resp_mean_us"]) / 1e3)
    for (payload, delay), ways in sorted(cells.items()):
        fixed = {way: statistics.fmean(times) for way, times in ways.items() if way in ("mqtt", "coap")}
        chosen = [time for way, times in ways.items() if way not in fixed for time in times]
        what = f"choice at 20 % loss, {payload} B, {delay // 500} ms round trip: regret"
        if len(fixed) < 2 or not chosen:
            yield what, "15 %", "courses are missing or do not count", False
            continue
        regret = statistics.median(chosen) / min(fixed.values()) - 1
        told = f"{regret:+.0%} (median of {len(chosen)}); " + ", ".join(f"{way} {ms:.0f} ms" for way, ms in sorted(fixed.items()))
        # A course of ten seconds ends before the client has measured both ways.
        held = None if args.short else regret <= 0.15
        yield what, "15 %", f"{told}, chosen {', '.join(f'{ms:.0f}' for ms in sorted(chosen))} ms", held


def main() -> int:
    args = arguments()
    parts = args.only.split(",")
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        sys.exit(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    if not args.program.is_file():
        sys.exit(f"{args.program} is not there: cargo build --release -p thalweg -p thalweg-bench")
    measures = {
        "log-in": measure_log_in,
        "silent": measure_silent,
        "memory": measure_memory,
        "crash": measure_crash,
        "c1": measure_c1,
        "g1": measure_g1,
        "l2": measure_l2,
    }
    rows = []
    # On a disk and not in /tmp, which may be memory.
    (TREE / "target").mkdir(exist_ok=True)
    for part in parts:
        folder = Path(tempfile.mkdtemp(prefix=f"bars-{part}-", dir=TREE / "target"))
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
    load = os.getloadavg()
    print(f"\n{args.program}, load average at the end {load[0]:.1f} {load[1]:.1f} {load[2]:.1f}\n")
    print("| part | what | bar | measured | |\n|---|---|---|---|---|")
    for part, what, bar, told, held in rows:
        verdict = {True: "held", False: "**missed**", None: ""}[held]
        print(f"| {part} | {what} | {bar} | {told.replace('|', '/')} | {verdict} |")
    return 0 if all(row[-1] is not False for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
