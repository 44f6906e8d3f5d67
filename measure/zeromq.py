#!/usr/bin/env python3
"""The bars of ZeroMQ: thalweg beside libzmq's XSUB/XPUB proxy and its PULL/PUSH device, in one sitting.

Usage: zeromq.py [--runs 3] [--seconds 4] [--only N[,N]] [--thalweg PATH] --tools DIR [--out FILE]

Builds the load tools (zmqblast from DIR, not in this repository, which is made of libzmq; zmtpblast from here, which is made
of bare sockets, because on two cores libzmq is the limit before a fast broker is), starts each broker in turn on loopback, runs
each workload against it RUNS times in rounds, and prints medians with their spread and the bars as one Markdown table. Broker
and tool share all cores. Queues are as long everywhere (10,000 messages at libzmq's sockets, that many at ours). Raw JSON lines
go to FILE. Exit status 1 if a bar is missed.
"""
import argparse
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
TIMES, NANOS, LATENCY = "times", "ns", "latency"
# Title, kind of messages, the tool's options, what is compared, and the bar.
PAIRS = "--pubs 10 --subs 10 --window 500 --size"
WORKLOADS = [
    ("PUB/SUB 36 B, 10 pairs", f"{PAIRS} 36", TIMES, 3.0),
    ("PUB/SUB 600 B, 10 pairs", f"{PAIRS} 600", TIMES, 3.0),
    ("PUB/SUB 30 KB, 10 pairs", f"{PAIRS} 30720", TIMES, 1.5),
    ("PUB/SUB 64 B, 1 to 1,000", "--pubs 1 --subs 1000 --size 64 --window 500 --pattern all", TIMES, 2.0),
    ("PUB/SUB 64 B, 100 to 1", "--pubs 100 --subs 1 --size 64 --window 500 --pattern all", TIMES, 3.0),
    ("PUB/SUB 64 B, 1,000/s", "--pubs 1 --subs 1 --size 64 --rate 1000", LATENCY, 1.0),
    ("PUSH/PULL 36 B", "--pubs 1 --subs 1 --size 36 --window 500", TIMES, 3.0),
    ("PUB to MQTT 36 B, 10 pairs, against MQTT to MQTT", f"{PAIRS} 36", TIMES, 0.7),
]
CPU_NS_MAX = 90


def rows():
    """Title, load tool, ends of ours and of what it is compared with, options, what is compared, bar."""
    for title, options, what, bar in WORKLOADS:
        if title.startswith("PUSH"):
            yield title, "zmtpblast", ("thalweg", "PUSH", "PULL"), ("device", "PUSH", "PULL"), options, what, bar
        elif "MQTT" in title:
            yield title, "zmtpblast", ("thalweg", "PUB", "MQTT"), ("thalweg", "MQTT", "MQTT"), options, what, bar
        else:
            for tool in ["zmqblast", "zmtpblast"]:
                yield title, tool, ("thalweg", "PUB", "SUB"), ("proxy", "PUB", "SUB"), options, what, bar


TAKEN = set()


def free_port():
    while True:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        if port not in TAKEN:
            TAKEN.add(port)
            return port


def wait_for(port):
    for _ in range(1200):
        try:
            socket.create_connection(("127.0.0.1", port), 0.2).close()
            return
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"nothing listens on port {port}")


class Broker:
    def __init__(self, name, args, folder):
        self.name, self.args, self.folder = name, args, folder

    def __enter__(self):
        ports = self.ports = {"PUB": free_port(), "SUB": free_port(), "MQTT": free_port()}
        if self.name == "thalweg":
            ports["SUB"] = ports["PUB"]
            data = tempfile.mkdtemp(dir=self.folder)
            sets = {"listeners.mqtt.bind": f"127.0.0.1:{ports['MQTT']}", "listeners.zmtp.bind": f"127.0.0.1:{ports['PUB']}",
                    "zmtp.high_water": 10000, "admin.enabled": "false", "data_dir": data}
            command = [self.args.thalweg, "serve"] + [f"--set={key}={value}" for key, value in sets.items()]
        elif self.name == "proxy":
            command = [os.path.join(self.folder, "zmqblast"), "proxy", str(ports["PUB"]), str(ports["SUB"])]
        else:
            command = [os.path.join(self.folder, "zmqdevice"), str(ports["PUB"]), str(ports["SUB"])]
        ports["PUSH"], ports["PULL"] = ports["PUB"], ports["SUB"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(ports["PUB"])
        wait_for(ports["SUB"])
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def load(self, tool, source, sink, options, seconds):
        ports = self.ports[source], self.ports[sink]
        command = [os.path.join(self.folder, tool)]
        if tool == "zmqblast":
            command += ["run", "--xsub", str(ports[0]), "--xpub", str(ports[1])]
        else:
            command += ["--from", f"{source}:{ports[0]}", "--to", f"{sink}:{ports[1]}"]
        command += options.split() + ["--duration", str(seconds), "--pid", str(self.process.pid)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60)
            return json.loads(done.stdout)
        except (subprocess.TimeoutExpired, json.JSONDecodeError):
            return None


def build(args, folder):
    for tool, source, libraries in [
        ("zmqblast", args.tools, ["-lzmq"]),
        ("zmqdevice", HERE, ["-lzmq"]),
        ("zmtpblast", HERE, []),
    ]:
        subprocess.run(["cc", "-O3", "-march=native", "-std=gnu11", "-pthread", "-o", os.path.join(folder, tool),
                        os.path.join(source, tool + ".c"), *libraries], check=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--only", help="numbers of rows, from 0")
    parser.add_argument("--thalweg", default=os.path.join(HERE, "../target/release/thalweg"))
    parser.add_argument("--tools", required=True, help="folder with mqblast.c and zmqblast.c")
    parser.add_argument("--out", default="/dev/null")
    args = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="thalweg-measure-")
    build(args, folder)
    chosen = list(rows())
    if args.only:
        chosen = [chosen[int(number)] for number in args.only.split(",")]
    results = {}
    with open(args.out, "w") as out:
        for run in range(args.runs):
            for at, (title, tool, ours, theirs, options, _, _) in enumerate(chosen):
                for side, (name, source, sink) in enumerate([ours, theirs]):
                    with Broker(name, args, folder) as broker:
                        result = broker.load(tool, source, sink, options, args.seconds)
                    line = {"workload": title, "tool": tool, "broker": name, "from": source, "to": sink, "run": run,
                            "result": result}
                    print(json.dumps(line), file=out, flush=True)
                    if result:
                        results.setdefault((at, side), []).append(result)
                    rate = result["msgs_per_s"] if result else 0
                    print(f"{run} {title:50} {tool:9} {name:8} {rate:>12,.0f}/s", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    print("| workload | load | thalweg | libzmq | reached | bar | |\n|---|---|--:|--:|--:|--:|---|")
    missed = sum(not row(chosen[at], results.get((at, 0)), results.get((at, 1))) for at in range(len(chosen)))
    sys.exit(bool(missed))


def row(workload, ours, theirs):
    """Prints a row; whether its bar is met."""
    title, tool, _, (name, *_), _, what, bar = workload
    if not ours or not theirs:
        print(f"| {title} | {tool} | {cell(ours, what)} | {cell(theirs, what)} | – | | no result |")
        return False
    if what == LATENCY:
        better = [middle(theirs, "lat_us", q) / middle(ours, "lat_us", q) for q in ("p50", "p99")]
        reached, wanted = " / ".join(f"{times:.2f} ×" for times in better), "below at p50 and p99"
        met = all(times > 1 for times in better)
    else:
        times = middle(ours, "msgs_per_s") / middle(theirs, "msgs_per_s")
        reached, wanted, met = f"{times:.2f} ×", f"≥ {bar:g} ×", times >= bar
        work = middle(theirs, "broker_us_per_msg") / middle(ours, "broker_us_per_msg")
        reached += f", CPU 1 : {work:.1f}"
        if " 36 B, 10 pairs" in title and title.startswith("PUB/SUB"):
            nanos = middle(ours, "broker_us_per_msg") * 1000
            wanted += f", ≤ {CPU_NS_MAX} ns"
            met = met and nanos <= CPU_NS_MAX
    lost = max(run.get("lost", 0) for run in ours)
    says = ("met" if met else "missed") + (f", {lost:,} lost" if lost else "")
    print(f"| {title} | {tool} | {cell(ours, what)} | {cell(theirs, what)} | {reached} | {wanted} | {says} |")
    return met and not lost


def middle(runs, key, quantile=None):
    return statistics.median(run[key][quantile] if quantile else run[key] for run in runs)


def cell(runs, what):
    if not runs:
        return "–"
    if what == LATENCY:
        return f"p50 {middle(runs, 'lat_us', 'p50'):.0f} / p99 {middle(runs, 'lat_us', 'p99'):.0f} µs"
    rates = [run["msgs_per_s"] for run in runs]
    rate, nanos = statistics.median(rates), middle(runs, "broker_us_per_msg") * 1000
    spread = (max(rates) - min(rates)) / rate * 100 if rate else 0
    return f"{rate / 1e6:.2f} M/s ±{spread / 2:.0f} %, {nanos:,.0f} ns, tool {middle(runs, 'tool_cpu'):.2f} cores"


if __name__ == "__main__":
    main()
