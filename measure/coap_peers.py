#!/usr/bin/env python3
"""The tables of CoAP in docs/performance.md: thalweg beside libcoap, over UDP, in one sitting, the same tool on both.

Usage: coap_peers.py [--runs 3] [--seconds 3] [--only NAME[,NAME]] [--workloads WORD[,WORD]] [--hold 100000]
                     [--thalweg PATH] [--set KEY=VALUE]... [--ports FIRST-LAST] [--out DIR] [--best] [--selftest]

Builds coapblast.c and libcoapd.c with cc, and runs each workload against a fresh server of each kind on loopback, RUNS rounds,
each round in the other order, so that a noisy minute hits all of them. Medians with half the spread (--best: the best run, for
a machine that others use, too) are printed as Markdown; raw rows go to DIR/coap.jsonl (default ../bench-results/DATE-coap).

Servers: thalweg, which syncs its disk before it answers a confirmable PUT, because that sets a last value; thalweg-nosync, which
does not, as libcoap, which keeps nothing; libcoap (libcoapd.c: libcoap's own API and nothing else); libcoap-non (the same, notifications as libcoap
sends them by default: every fifth is confirmable); coap-server (Debian's example program, -d 100); null (coapblast's own, which
does nothing: what tool and kernel carry at most). Each is named by --only; server and tool share all cores.

Each request comes from an endpoint of its own unless the workload says "pipelined": there 16 endpoints have 16 requests under way
each, and what one endpoint sends leaves in one system call (UDP segmentation offload), so the tool needs a tenth of a core.
A server is fresh in each run: libcoap's costs grow with the number of endpoints that it remembers.
"""
import argparse
import datetime
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
RATES = {
    "PUT 60 B, CON, 16 endpoints": "requests --outstanding 16 --topics 16",
    "PUT 60 B, CON, 256 endpoints": "requests --outstanding 256 --topics 16",
    "PUT 60 B, CON, 16 endpoints, pipelined": "requests --outstanding 256 --depth 16 --gso --topics 16",
    "PUT 60 B, NON, 16 endpoints": "requests --outstanding 16 --topics 16 --non",
    "GET, CON, 16 endpoints": "requests --outstanding 16 --topics 16 --get",
    "notify 100 observers, 60 B": "observe --observers 100 --window 1",
    "notify 100 observers, 60 B, window 4": "observe --observers 100 --window 4",
    "notify 100 observers, 60 B, PUT NON": "observe --observers 100 --window 1 --non",
}
TRIPS = {
    "PUT and its answer, 1,000/s": "requests --outstanding 64 --topics 16 --rate 1000",
    "PUT to an observer, 100/s": "observe --observers 1 --rate 100",
}
HOLD = {"memory of an observer": "hold"}
# The aims against libcoap: by the beginning of a workload's name.
BARS = {"PUT 60 B, CON": 3, "notify 100": 5}
HOLD_BAR_BYTES = 600


class Server:
    """A fresh server of one kind."""

    def __init__(self, name, args):
        self.name, self.args, self.process = name, args, None
        self.folder = tempfile.mkdtemp(prefix=f"{name}-")
        self.port, self.others = free_port(args.ports), [free_port(args.ports) for _ in range(2)]

    def __enter__(self):
        with open(os.path.join(self.folder, "log"), "wb") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=log)
        # An empty confirmable message is answered by a reset.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(0.2)
            for _ in range(100):
                try:
                    s.sendto(b"\x40\x00\x00\x01", ("127.0.0.1", self.port))
                    if s.recv(64)[1:2] == b"\x00" or self.name == "null":
                        break
                except OSError:
                    time.sleep(0.05)
                if self.process.poll() is not None:
                    raise SystemExit(f"{self.name} does not start:\n" + open(os.path.join(self.folder, "log")).read()[-3000:])
                if self.name == "null":
                    break
        time.sleep(0.5)
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def command(self):
        tool, port = lambda name: os.path.join(self.args.tools, name), str(self.port)
        if self.name.startswith("thalweg"):
            more = ["listeners.coap.fsync=never"] if self.name == "thalweg-nosync" else []
            sets = [f"listeners.coap.bind=127.0.0.1:{port}", f"listeners.mqtt.bind=127.0.0.1:{self.others[0]}",
                    "listeners.websocket.enabled=false", f"admin.bind=127.0.0.1:{self.others[1]}", *more, *self.args.set]
            return [self.args.thalweg, "serve", "--data", os.path.join(self.folder, "data")] + [f"--set={one}" for one in sets]
        if self.name == "libcoap":
            return [tool("libcoapd"), port]
        if self.name == "libcoap-non":
            return [tool("libcoapd"), port, "non"]
        if self.name == "coap-server":
            return ["coap-server-notls", "-A", "127.0.0.1", "-p", port, "-d", "100", "-v", "0"]
        if self.name == "null":
            return [tool("coapblast"), "null", "--port", port, "--gso"]
        raise SystemExit(f"unknown server {self.name}")

    def run(self, options):
        command = [os.path.join(self.args.tools, "coapblast"), *options.split()[:1], "--port", str(self.port), "--pid",
                   str(self.process.pid), *options.split()[1:]]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
            return json.loads(done.stdout)
        except (subprocess.TimeoutExpired, json.JSONDecodeError) as fault:
            said = "took too long" if isinstance(fault, subprocess.TimeoutExpired) else done.stdout + done.stderr
            print(f"{' '.join(command)}: {said}", file=sys.stderr)
            return {"valid": False, "said": said}


def free_port(ports, taken=[]):
    """The next of the range that nobody listens on; used in turn, so that a port just left is not taken at once."""
    first, last = map(int, ports.split("-"))
    for _ in range(last - first + 1):
        port = taken[-1] + 1 if taken and taken[-1] < last else first
        taken.append(port)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as u, socket.socket() as t:
            try:
                u.bind(("127.0.0.1", port))
                t.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise SystemExit(f"no free port in {ports}")


class Results:
    def __init__(self, path, take_best):
        os.makedirs(path, exist_ok=True)
        self.file, self.all, self.invalid, self.take_best = open(os.path.join(path, "coap.jsonl"), "a"), {}, [], take_best

    def note(self, workload, server, run, result):
        stamp = datetime.datetime.now().isoformat(timespec="seconds")
        row = {"workload": workload, "server": server, "run": run, "at": stamp, "load": os.getloadavg()[0], "result": result}
        print(json.dumps(row), file=self.file, flush=True)
        keys = ("msgs_per_s", "broker_us_per_msg", "broker_cpu", "tool_cpu", "bytes_each", "bytes_each_after", "conflated", "repeated")
        shown = {key: result[key] for key in keys if result.get(key)}
        if result.get("rate"):
            shown = result["lat_us"]
        print(f"{run} {workload:40} {server:12} {'' if result['valid'] else 'INVALID '}{shown}", file=sys.stderr, flush=True)
        if result["valid"]:
            self.all.setdefault((workload, server), []).append(result)
        else:
            self.invalid.append(f"{workload}, {server}, round {run}: " + (result.get("said", "").strip() or json.dumps(
                {key: result[key] for key in ("failed", "unanswered", "strangers", "behind", "stalls", "codes") if result.get(key)})))

    def figure(self, workload, server, *keys, low=False):
        """A median and half the spread; or the best."""
        values = []
        for result in self.all.get((workload, server), []):
            for key in keys:
                result = result[key]
            values.append(result)
        if not values:
            return None
        middle = (min(values) if low else max(values)) if self.take_best else statistics.median(values)
        return middle, (max(values) - min(values)) / 2


def number(figure, form="{:,.0f}", spread=False):
    if not figure:
        return "–"
    return form.format(figure[0]) + (f" ±{figure[1] / figure[0] * 100:.0f} %" if spread and figure[0] else "")


def rate_rows(args, results, chosen):
    rows = ["| workload | server | per second | server CPU each | cores: server / tool | against libcoap | CPU against libcoap | aimed at |",
            "|---|---|--:|--:|--:|--:|--:|--:|"]
    for workload in chosen:
        bar = next((bar for words, bar in BARS.items() if workload.startswith(words)), None)
        theirs = results.figure(workload, "libcoap", "msgs_per_s")
        their_cpu = results.figure(workload, "libcoap", "broker_us_per_msg", low=True)
        for server in args.servers:
            rate = results.figure(workload, server, "msgs_per_s")
            cpu = results.figure(workload, server, "broker_us_per_msg", low=True)
            if not rate:
                rows.append(f"| {workload} | {server} | – | – | – | | | |")
                continue
            ratio = f"{rate[0] / theirs[0]:.1f} ×" if theirs and server.startswith("thalweg") else ""
            cpu_ratio = f"{their_cpu[0] / cpu[0]:.1f} ×" if their_cpu and server.startswith("thalweg") and cpu[0] else ""
            cores = f"{number(results.figure(workload, server, 'broker_cpu'), '{:.2f}')} / {number(results.figure(workload, server, 'tool_cpu'), '{:.2f}')}"
            rows.append(f"| {workload} | {server} | {number(rate, '{:,.0f}', not args.best)} | {number(cpu, '{:,.2f} µs')} | {cores} | {ratio} | "
                        f"{cpu_ratio} | {f'≥ {bar} ×' if bar and ratio else ''} |")
    return rows


def trip_rows(args, results, chosen):
    rows = ["", "| latency | server | p50 | p99 | p99.9 |", "|---|---|--:|--:|--:|"]
    for workload in chosen:
        for server in args.servers:
            of = lambda q: number(results.figure(workload, server, "lat_us", q, low=True), "{:,.0f} µs")
            rows.append(f"| {workload} | {server} | {of('p50')} | {of('p99')} | {of('p999')} |")
    return rows


def hold_rows(args, results, chosen):
    rows = ["", "| memory | server | each | after a notification of all | observers | all notified in | aimed at |", "|---|---|--:|--:|--:|--:|--:|"]
    for workload in chosen:
        for server in args.servers:
            of = lambda key, form: number(results.figure(workload, server, key, low=True), form)
            rows.append(f"| {workload} | {server} | {of('bytes_each', '{:,.0f} B')} | {of('bytes_each_after', '{:,.0f} B')} | {of('observers', '{:,}')} | "
                        f"{of('notified_in_s', '{:.2f} s')} | {f'≤ {HOLD_BAR_BYTES} B' if server == 'thalweg' else ''} |")
    return rows


def build(args):
    tool = lambda name: os.path.join(args.tools, name)
    subprocess.run(["cc", "-O3", "-march=native", "-std=gnu11", "-Wall", "-Wextra", "-o", tool("coapblast"),
                    os.path.join(HERE, "coapblast.c")], check=True)
    if any(name.startswith("libcoap") for name in args.servers):
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "libcoap-3-notls"], capture_output=True, text=True, check=False)
        if flags.returncode:
            raise SystemExit("libcoap is missing: apt-get install libcoap3-dev libcoap3-bin")
        subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-o", tool("libcoapd"), os.path.join(HERE, "libcoapd.c"),
                        *flags.stdout.split()], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--warmup", type=float, default=1)
    parser.add_argument("--trip-seconds", type=float, default=5)
    parser.add_argument("--only", default="thalweg,thalweg-nosync,libcoap,libcoap-non,coap-server,null")
    parser.add_argument("--workloads", default="")
    parser.add_argument("--hold", type=int, default=100000)
    parser.add_argument("--thalweg", default=os.path.join(HERE, "../target/release/thalweg"))
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--ports", default="20400-20489")
    parser.add_argument("--out", default=os.path.join(HERE, f"../bench-results/{datetime.date.today()}-coap"))
    parser.add_argument("--best", action="store_true")
    parser.add_argument("--selftest", action="store_true")
    args = parser.parse_args()
    args.servers, words = args.only.split(","), [word for word in args.workloads.split(",") if word]
    args.tools = tempfile.mkdtemp(prefix="thalweg-tools-")
    chosen = lambda workloads: [name for name in workloads if not words or any(word in name for word in words)]
    results = Results(args.out, args.best)
    try:
        build(args)
        if args.selftest:
            port = str(free_port(args.ports))
            subprocess.run([os.path.join(args.tools, "coapblast"), "--selftest", "--port", port, "--seconds", "1"], check=True)
        for run in range(args.runs):
            for workload in chosen({**RATES, **TRIPS, **HOLD}):
                options = {**RATES, **TRIPS, **HOLD}[workload]
                if workload not in HOLD:
                    options += f" --warmup {args.warmup} --seconds {args.trip_seconds if workload in TRIPS else args.seconds}"
                for name in args.servers if run % 2 == 0 else reversed(args.servers):
                    if name == "null" and workload.startswith("GET"):
                        continue
                    with Server(name, args) as server:
                        # libcoap walks all its sessions for each packet: a hundred thousand would take it an hour.
                        held = min(args.hold, 10000) if "coap" in name else args.hold
                        more = f" --observers {held} --seconds 3" if workload in HOLD else ""
                        results.note(workload, name, run, server.run(options + more))
    finally:
        shutil.rmtree(args.tools, ignore_errors=True)
    rows = ["```sh", "python3 measure/coap_peers.py " + " ".join(sys.argv[1:]), "```", ""]
    for workloads, table in ((RATES, rate_rows), (TRIPS, trip_rows), (HOLD, hold_rows)):
        if chosen(workloads):
            rows += table(args, results, chosen(workloads))
    print("\n".join(rows))
    if results.invalid:
        print("\nnot counted:\n\n" + "\n".join(f"- {line}" for line in results.invalid))


if __name__ == "__main__":
    main()
