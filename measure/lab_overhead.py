#!/usr/bin/env python3
"""What the laboratory itself adds to a latency: its bare driver beside mqblast (C, not in this repository), on the same broker.

Usage: lab_overhead.py --mqblast PATH --lab PROGRAM [--port 1883] [--rounds 5] [--rate 1000] [--size 60] [--seconds 5]

PROGRAM is `thalweg` (or a program that takes what follows `thalweg bench`, with --direct). A broker has to run at the port.
Each round measures with both, the order turned each time, so that a noisy minute hits both; times are from handing a message
to the socket to reading it (service time here, `lat_us` there), one publisher, one subscriber, QoS 0. Prints each round and the
medians of p50 and p99 in microseconds, and their difference. The bar: at most 10 us at p99.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile

SCENARIO = """\
name: overhead
version: 1
repeats: 1
topology: {{kind: loopback}}
system:   {{name: "127.0.0.1:{port}", driver: bare}}
protocol: {{publish: mqtt, qos: 0}}
workload: {{class: fixed, size: {size}B, header: inline, seed: 1}}
load:     {{model: open, rate: {rate}/s, flows: 1, arrivals: periodic}}
phases:   {{settle: 500ms, warmup: 1s, measure: {seconds}s, drain: 2s}}
"""


def by_mqblast(args):
    command = [args.mqblast, "--port", args.port, "--pubs", 1, "--subs", 1, "--size", args.size, "--rate", args.rate,
               "--duration", args.seconds, "--warmup", 1]
    said = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout
    line = json.loads(said.strip().splitlines()[-1])["lat_us"]
    return line["p50"], line["p99"]


def by_lab(args, folder):
    scenario = os.path.join(folder, "overhead.yaml")
    with open(scenario, "w", encoding="utf-8") as file:
        file.write(SCENARIO.format(**vars(args)))
    out = tempfile.mkdtemp(dir=folder)
    words = [args.lab] + ([] if args.direct else ["bench"]) + ["run", scenario, "--out", os.path.join(out, "run")]
    # 2 says that the trial does not count (the machine was too busy); its service times are shown all the same.
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode not in (0, 2):
        raise SystemExit(done.stderr)
    with open(os.path.join(out, "run", "cells.jsonl"), encoding="utf-8") as file:
        service = json.loads(file.readline())["row"]["service"]
    return service["p50"], service["p99"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mqblast", required=True)
    parser.add_argument("--lab", required=True)
    parser.add_argument("--direct", action="store_true")
    for name, default in (("port", 1883), ("rounds", 5), ("rate", 1000), ("size", 60), ("seconds", 5)):
        parser.add_argument("--" + name, type=int, default=default)
    args = parser.parse_args()
    found = {"mqblast": [], "laboratory": []}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(args.rounds):
            both = [("mqblast", lambda: by_mqblast(args)), ("laboratory", lambda: by_lab(args, folder))]
            for name, measure in both if number % 2 == 0 else reversed(both):
                p50, p99 = measure()
                found[name].append((p50, p99))
                print(f"round {number + 1}  {name:<10}  p50 {p50:7.1f}  p99 {p99:7.1f} us", flush=True)
    middle = {name: [statistics.median(column) for column in zip(*rounds)] for name, rounds in found.items()}
    for name, (p50, p99) in middle.items():
        print(f"median   {name:<10}  p50 {p50:7.1f}  p99 {p99:7.1f} us")
    more = [ours - theirs for ours, theirs in zip(middle["laboratory"], middle["mqblast"])]
    print(f"overhead            p50 {more[0]:+7.1f}  p99 {more[1]:+7.1f} us")


if __name__ == "__main__":
    main()
