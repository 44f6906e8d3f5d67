#!/usr/bin/env python3
"""How fast clients publish: ours beside the fastest stock client of each protocol, one after the other, on the same sinks.

Usage: publish_speed.py [--runs 5] [--messages 400000] [--size 36] [--thalweg PATH] [--only WORD] [--out FILE.csv]

Builds measure/clients (cargo, cc; libpaho-mqtt-dev and libcoap3-dev; what is missing is left out and named), starts the
sinks of `thalweg bench speed sink`, and runs every client RUNS times in rounds, so that a noisy minute hits all of them.
The rate is the sink's: messages that came but one, through the time from the first to the last. Prints medians, spread,
processor time of the client per message, and the ratio of ours to the best other one of the protocol, as Markdown.
"""
import argparse
import csv
import json
import os
import queue
import resource
import shutil
import statistics
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
CLIENTS = os.path.join(HERE, "clients")
SHIFT = 10_000
PORTS = {"mqtt": 1883 + SHIFT, "amqp": 5672 + SHIFT, "coap": 5683 + SHIFT, "stomp": 41_613 + SHIFT}
RELIABILITY = {0: "at-most-once", 1: "at-least-once"}
# libcoap's publisher with so many confirmable messages under way: one is its fastest way on a loopback, as it goes through
# the list of them for every answer.
UNDER_WAY = {"libcoap": 1, "libcoap-16": 16}
# Ours has one confirmable message of a topic under way, as it promises their order; libcoap promises none.
TOPICS = {("coap", 1): 1000}


def build(folder):
    """Programs by (protocol, client)."""
    programs = {}
    target = os.path.join(folder, "rust")
    if shutil.which("cargo"):
        done = subprocess.run(["cargo", "build", "--release", "--manifest-path", os.path.join(CLIENTS, "Cargo.toml"),
                               "--target-dir", target])
        if done.returncode == 0:
            programs["mqtt", "rumqttc"] = os.path.join(target, "release", "rumqttc_publisher")
            programs["amqp", "lapin"] = os.path.join(target, "release", "lapin_publisher")
    for protocol, name, source, library in [("mqtt", "paho-c", "paho_publisher", "paho-mqtt3a"),
                                            ("coap", "libcoap", "libcoap_publisher", "coap-3-notls"),
                                            ("coap", "libcoap-16", "libcoap_publisher", "coap-3-notls")]:
        program = os.path.join(folder, source)
        done = subprocess.run(["cc", "-O2", "-o", program, os.path.join(CLIENTS, source + ".c"), "-l" + library])
        if done.returncode == 0:
            programs[protocol, name] = program
        else:
            print(f"{name} is left out: its library is not installed", file=sys.stderr)
    return programs


class Sinks:
    def __init__(self, thalweg):
        self.process = subprocess.Popen([thalweg, "bench", "speed", "sink", "--shift", str(SHIFT)],
                                        stdout=subprocess.PIPE, text=True)
        self.lines = queue.Queue()
        if self.process.stdout.readline().strip() != "ready":
            raise SystemExit("the sinks did not start")
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))

    def next(self, protocol):
        while True:
            line = self.lines.get(timeout=30)
            if line["sink"] == protocol:
                return line

    def stop(self):
        self.process.kill()
        self.process.wait()


def run(command, protocol, sinks):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    cpu = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
    return json.loads(done.stdout), sinks.next(protocol), cpu


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--runs", type=int, default=5)
    arguments.add_argument("--messages", type=int, default=400_000)
    arguments.add_argument("--size", type=int, default=36)
    arguments.add_argument("--thalweg", default=os.path.join(HERE, "..", "target", "release", "thalweg"))
    arguments.add_argument("--build", default=os.path.join(HERE, "..", "target", "stock-publishers"))
    arguments.add_argument("--only", help="only protocols or clients in which this is")
    arguments.add_argument("--out")
    given = arguments.parse_args()
    os.makedirs(given.build, exist_ok=True)
    programs = build(given.build)
    cells = []
    for protocol in PORTS:
        others = [(name, program) for (of, name), program in programs.items() if of == protocol]
        for qos in (0, 1):
            for name, program in others + [("thalweg", None)]:
                if name == "libcoap-16" and qos == 0:
                    continue
                if given.only is None or given.only in protocol or given.only in name:
                    cells.append((protocol, qos, name, program))
    sinks = Sinks(given.thalweg)
    rows = []
    try:
        for number in range(given.runs):
            for protocol, qos, name, program in cells:
                # What goes by datagrams one by one takes longer.
                messages = given.messages if protocol != "coap" else given.messages // 2
                if program is None:
                    command = [given.thalweg, "bench", "speed", "publish", f"{protocol}://127.0.0.1:{PORTS[protocol]}",
                               "--messages", str(messages), "--payload", f"{given.size}B",
                               "--reliability", RELIABILITY[qos], "--topics", str(TOPICS.get((protocol, qos), 1))]
                else:
                    command = [program, str(PORTS[protocol]), str(messages), str(given.size), str(qos)]
                    if name in UNDER_WAY:
                        command.append(str(UNDER_WAY[name]))
                own, sink, cpu = run(command, protocol, sinks)
                rate = (sink["messages"] - 1) / max(sink["seconds"], 1e-9)
                rows.append({"run": number, "protocol": protocol, "reliability": RELIABILITY[qos], "client": name,
                             "size": given.size, "sent": messages, "came": sink["messages"],
                             "rate_per_s": round(rate), "client_rate_per_s": round(messages / own["seconds"]),
                             "client_cpu_us": round(cpu / messages * 1e6, 3)})
                print(rows[-1], file=sys.stderr)
    finally:
        sinks.stop()
    if given.out:
        with open(given.out, "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys())
            writer.writeheader()
            writer.writerows(rows)
    print("| protocol | reliability | client | messages/s, median | least to greatest | client CPU us/message | came | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for protocol in PORTS:
        for qos in (0, 1):
            some = [row for row in rows if (row["protocol"], row["reliability"]) == (protocol, RELIABILITY[qos])]
            names = list(dict.fromkeys(row["client"] for row in some))
            rate = {name: [row["rate_per_s"] for row in some if row["client"] == name] for name in names}
            best = max((statistics.median(rates) for name, rates in rate.items() if name != "thalweg"), default=None)
            for name in names:
                mine = [row for row in some if row["client"] == name]
                median = statistics.median(rate[name])
                came = min(row["came"] / row["sent"] for row in mine)
                cpu = statistics.median(row["client_cpu_us"] for row in mine)
                ratio = f"{median / best:.2f}" if name == "thalweg" and best else ""
                print(f"| {protocol} | {RELIABILITY[qos]} | {name} | {median:,.0f} | {min(rate[name]):,} to "
                      f"{max(rate[name]):,} | {cpu:.2f} | {came:.1%} | {ratio} |")


if __name__ == "__main__":
    main()
