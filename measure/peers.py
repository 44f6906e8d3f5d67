#!/usr/bin/env python3
"""The table of docs/performance.md: thalweg beside mqfloor, the ZeroMQ proxy, mosquitto and nats-server, in one sitting.

Usage: peers.py [--runs 3] [--seconds 4] [--only NAME[,NAME]] [--workloads N[,N]] [--thalweg PATH] --tools DIR [--out FILE]

Builds the load tools from DIR (mqblast and zmqblast, which are not in this repository) with cc, starts each broker in turn on loopback with its
limits lifted, runs each workload against it RUNS times in rounds (so that a noisy minute hits all of them), and prints
medians with their spread as Markdown. Broker and tool share all cores. A broker that is not installed is left out and
named. Raw JSON lines go to FILE.
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
WORKLOADS = {
    "36 B, 10 pairs, QoS 0": "--pubs 10 --subs 10 --size 36 --window 500",
    "the same, open loop": "--pubs 10 --subs 10 --size 36 --window 0",
    "the same, QoS 1": "--pubs 10 --subs 10 --size 36 --window 500 --qos 1",
    "the same, QoS 2": "--pubs 10 --subs 10 --size 36 --window 500 --qos 2",
    "600 B, 10 pairs": "--pubs 10 --subs 10 --size 600 --window 500",
    "30 KB, 10 pairs": "--pubs 10 --subs 10 --size 30720 --window 500",
    "fan-out 1 to 7, 64 B": "--pubs 1 --subs 7 --size 64 --window 500 --pattern all",
    "fan-out 1 to 1000, 64 B": "--pubs 1 --subs 1000 --size 64 --window 500 --pattern all",
    "fan-in 100 to 1, 64 B": "--pubs 100 --subs 1 --size 64 --window 500 --pattern all",
    "1,000 messages/s, 64 B": "--pubs 1 --subs 1 --size 64 --rate 1000",
}
QOS0_ONLY = {"mqfloor", "zeromq"}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(port):
    for _ in range(200):
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
        self.port, self.port2 = free_port(), free_port()
        command = self.command()
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(self.port)
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def command(self):
        port, tool = self.port, lambda name: os.path.join(self.folder, name)
        if self.name == "thalweg":
            sets = {"listeners.mqtt.bind": f"127.0.0.1:{port}", "listeners.websocket.enabled": "false",
                    "admin.enabled": "false", "data_dir": os.path.join(self.folder, "data")}
            return [self.args.thalweg, "serve"] + [f"--set={key}={value}" for key, value in sets.items()]
        if self.name == "mqfloor":
            return [tool("mqfloor"), str(port)]
        if self.name == "zeromq":
            return [tool("zmqblast"), "proxy", str(port), str(self.port2)]
        if self.name == "mosquitto":
            config = os.path.join(self.folder, "mosquitto.conf")
            with open(config, "w") as file:
                file.write(f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n"
                           "max_inflight_messages 0\nset_tcp_nodelay true\n")
            return [shutil.which("mosquitto") or "/usr/sbin/mosquitto", "-c", config]
        if self.name == "nats":
            config = os.path.join(self.folder, "nats.conf")
            store = os.path.join(self.folder, "nats")
            with open(config, "w") as file:
                file.write(f'listen: "127.0.0.1:{self.port2}"\nserver_name: measured\nwrite_deadline: "60s"\n'
                           f'jetstream {{ store_dir: "{store}" }}\n'
                           f'mqtt {{ listen: "127.0.0.1:{port}", max_ack_pending: 65535 }}\n')
            return [nats(), "-c", config]
        raise SystemExit(f"unknown broker {self.name}")

    def load(self, options, seconds):
        pid = str(self.process.pid)
        if self.name == "zeromq":
            command = [os.path.join(self.folder, "zmqblast"), "run", "--xsub", str(self.port), "--xpub",
                       str(self.port2)]
        else:
            command = [os.path.join(self.folder, "mqblast"), "--port", str(self.port)]
        command += options.split() + ["--duration", str(seconds), "--pid", pid]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 40)
            return json.loads(done.stdout)
        except (subprocess.TimeoutExpired, json.JSONDecodeError):
            return None


def nats():
    return os.environ.get("NATS_SERVER") or shutil.which("nats-server") or os.path.expanduser("~/go/bin/nats-server")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--only", default="thalweg,mqfloor,zeromq,mosquitto,nats")
    parser.add_argument("--workloads", default=",".join(str(n) for n in range(len(WORKLOADS))))
    parser.add_argument("--thalweg", default=os.path.join(HERE, "../target/release/thalweg"))
    parser.add_argument("--tools", required=True, help="folder with mqblast.c and zmqblast.c")
    parser.add_argument("--out", default="/dev/null")
    args = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="thalweg-measure-")
    for tool, libraries in {"mqblast": [], "zmqblast": ["-lzmq"], "mqfloor": []}.items():
        source = os.path.join(args.tools, tool + ".c")
        subprocess.run(["cc", "-O3", "-march=native", "-std=gnu11", "-pthread", "-o", os.path.join(folder, tool),
                        source, *libraries], check=True)
    brokers = args.only.split(",")
    if "nats" in brokers and not os.path.exists(nats()):
        print("nats-server is not installed (go install github.com/nats-io/nats-server/v2@latest); left out",
              file=sys.stderr)
        brokers.remove("nats")
    chosen = [list(WORKLOADS)[int(n)] for n in args.workloads.split(",")]
    results = {}
    with open(args.out, "w") as out:
        for run in range(args.runs):
            for workload in chosen:
                for name in brokers:
                    if name in QOS0_ONLY and "--qos" in WORKLOADS[workload]:
                        continue
                    with Broker(name, args, folder) as broker:
                        result = broker.load(WORKLOADS[workload], args.seconds)
                    print(json.dumps({"broker": name, "workload": workload, "run": run, "result": result}), file=out,
                          flush=True)
                    if result:
                        results.setdefault(workload, {}).setdefault(name, []).append(result)
                    rate = result["msgs_per_s"] if result else 0
                    print(f"{run} {workload:26} {name:10} {rate:>12,.0f}/s", file=sys.stderr, flush=True)
    print("| workload | " + " | ".join(brokers) + " |\n|---" + "|---" * len(brokers) + "|")
    for workload in chosen:
        cells = [cell(results.get(workload, {}).get(name), "--rate" in WORKLOADS[workload]) for name in brokers]
        print(f"| {workload} | " + " | ".join(cells) + " |")
    shutil.rmtree(folder, ignore_errors=True)


def cell(runs, latency):
    if not runs:
        return "–"
    if latency:
        middle = lambda q: statistics.median(run["lat_us"][q] for run in runs)
        return f"p50 {middle('p50'):.0f} / p99 {middle('p99'):.0f} µs"
    rates = [run["msgs_per_s"] for run in runs]
    rate, nanos = statistics.median(rates), statistics.median(run["broker_us_per_msg"] for run in runs) * 1000
    spread = (max(rates) - min(rates)) / rate * 100 if rate else 0
    lost = max(run.get("lost", 0) for run in runs)
    text = f"{rate / 1e6:.2f} M/s ±{spread / 2:.0f} %, {nanos:,.0f} ns"
    return text + (f", {lost:,} lost" if lost else "")


if __name__ == "__main__":
    main()
