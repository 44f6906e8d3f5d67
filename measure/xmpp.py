#!/usr/bin/env python3
"""The bars of XMPP: thalweg beside ejabberd, in one sitting.

Usage: xmpp.py [--runs 3] [--seconds 4] [--only N[,N]] [--thalweg PATH] [--out FILE]

Builds xmppblast with cc, starts each broker in turn on loopback without TLS and with anonymous clients, runs each workload
against it RUNS times in rounds (items are kept where the row says so), and prints medians and the bars as one Markdown table.
Broker and tool share all cores, and ejabberd hands each publish from thread to thread: on a machine that does anything else its
figures are worthless, so the load is printed with the table. Erlang's schedulers do not spin while they wait (`+sbwt none`),
which would count as work. What is compared is the broker's processor time for a notification: the tool is the limit before a
fast broker is. A whole run takes eight minutes. Raw JSON lines go to FILE. Exit status 1 if a bar is missed.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import zeromq
from zeromq import free_port, middle, wait_for

HERE = pathlib.Path(__file__).resolve().parent
WORK, LATENCY, MEMORY = "work", "latency", "memory"
WORKLOADS = [
    ("72 B, 10 pairs", "pairs --pairs 10 --window 500", WORK),
    ("72 B, one to 7", "pairs --pairs 1 --subs 7 --window 500", WORK),
    ("72 B, one to 1,000", "pairs --pairs 1 --subs 1000 --window 50", WORK),
    ("72 B, 10 pairs, items on disk", "pairs --pairs 10 --window 500 --persistent", WORK),
    ("600 B, 10 pairs", "pairs --pairs 10 --window 500 --size 600", WORK),
    ("72 B, chat, 10 pairs", "chat --pairs 10 --window 500", WORK),
    ("100/s", "rtt --rate 100", LATENCY),
    ("1,000/s", "rtt --rate 1000", LATENCY),
    ("1,000 idle sessions", "idle --count 1000", MEMORY),
]
TIMES, KIB_MAX = 20, 8
EJABBERD = """\
listen:
  -
    port: {port}
    ip: "127.0.0.1"
    module: ejabberd_c2s
    max_stanza_size: infinity
    max_fsm_queue: 1000000
    shaper: none
    access: everyone
    starttls: false
hosts: [localhost]
loglevel: error
auth_method: anonymous
anonymous_protocol: both
allow_multiple_connections: true
acl:
  local:
    user_regexp: ""
access_rules:
  everyone:
    allow: all
modules:
  mod_disco: {{}}
  mod_pubsub:
    access_createnode: everyone
    ignore_pep_from_offline: true
    last_item_cache: false
    max_items_node: 1
    plugins: [flat]
"""


class Broker(zeromq.Broker):
    def __init__(self, name, args, folder):
        super().__init__(name, args, pathlib.Path(tempfile.mkdtemp(dir=folder)))
        self.port = free_port()

    def __enter__(self):
        command, env = self.ejabberd() if self.name == "ejabberd" else self.thalweg()
        self.process = subprocess.Popen(command, env=os.environ | env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(self.port)
        return self

    def thalweg(self):
        sets = {"listeners.xmpp.bind": f"127.0.0.1:{self.port}", "admin.enabled": "false", "data_dir": self.folder / "data"}
        return [self.args.thalweg, "serve", *(f"--set={key}={value}" for key, value in sets.items())], {}

    def ejabberd(self):
        """A node of its own, without a port mapper."""
        config = self.folder / "ejabberd.yml"
        config.write_text(EJABBERD.format(port=self.port))
        script = pathlib.Path(shutil.which("ejabberdctl") or sys.exit("ejabberd is not installed")).read_text()
        libraries = re.search(r"^ERL_LIBS='?([^'\n]*)", script, re.M)
        command = ["erl", "-noinput", "-sname", f"blast{self.port}@localhost", "-erl_epmd_port", str(free_port()),
                   "-start_epmd", "false", "-kernel", "inet_dist_use_interface", "{127,0,0,1}", "+K", "true", "+P", "250000",
                   "+sbwt", "none", "+sbwtdcpu", "none", "+sbwtdio", "none",
                   "-mnesia", "dir", f'"{self.folder}/mnesia"', "-s", "ejabberd"]
        return command, {"HOME": str(self.folder), "ERL_LIBS": libraries[1] if libraries else "",
                         "EJABBERD_CONFIG_PATH": str(config), "EJABBERD_LOG_PATH": str(self.folder / "ejabberd.log")}

    def load(self, options, seconds):
        command = [self.args.tool, *options.split(), "--port", str(self.port), "--pid", str(self.process.pid),
                   "--seconds", str(seconds)]
        try:
            return json.loads(subprocess.run(command, capture_output=True, text=True, timeout=seconds + 120).stdout)
        except (subprocess.TimeoutExpired, json.JSONDecodeError):
            return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--only", help="numbers of rows, from 0")
    parser.add_argument("--thalweg", default=HERE.parent / "target/release/thalweg")
    parser.add_argument("--out", default="/dev/null")
    args = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="thalweg-measure-")
    args.tool = os.path.join(folder, "xmppblast")
    subprocess.run(["cc", "-O3", "-march=native", "-std=gnu11", "-o", args.tool, HERE / "xmppblast.c"], check=True)
    chosen = [WORKLOADS[int(number)] for number in args.only.split(",")] if args.only else WORKLOADS
    results, load = {}, os.getloadavg()[0]
    with open(args.out, "w") as out:
        for run in range(args.runs):
            for workload in chosen:
                for name in ["thalweg", "ejabberd"]:
                    with Broker(name, args, folder) as broker:
                        result = broker.load(workload[1], args.seconds)
                    print(json.dumps({"workload": workload[0], "broker": name, "run": run, "result": result}), file=out, flush=True)
                    print(run, workload[0], name, says(workload, [result] if result else []), file=sys.stderr, flush=True)
                    results.setdefault((workload[0], name), []).extend([result] if result else [])
    shutil.rmtree(folder, ignore_errors=True)
    print(f"load average before the first run {load:.1f}\n")
    print("| workload | thalweg | ejabberd | reached | bar | |\n|---|--:|--:|--:|--:|---|")
    sys.exit(not all([row(workload, results[workload[0], "thalweg"], results[workload[0], "ejabberd"]) for workload in chosen]))


def row(workload, ours, theirs):
    """Prints a row; whether its bar is met."""
    title, _, what = workload
    reached, bar, met = "–", "", False
    if ours and what == MEMORY:
        bar, met = f"≤ {KIB_MAX} KiB each", middle(ours, "kib_each") <= KIB_MAX
    elif ours and theirs and what == LATENCY:
        bar, met = "p99 below its p50", middle(ours, "lat_us", "p99") < middle(theirs, "lat_us", "p50")
    elif ours and theirs:
        times = middle(theirs, "broker_us_per_msg") / middle(ours, "broker_us_per_msg")
        reached, bar, met = f"1 : {times:.1f}", f"1 : {TIMES}", times >= TIMES
    met = met and all(run["valid"] for run in ours)
    print(f"| {title} | {says(workload, ours)} | {says(workload, theirs)} | {reached} | {bar} | {'met' if met else 'missed'} |")
    return met


def says(workload, runs):
    if not runs:
        return "no result"
    invalid = "" if all(run["valid"] for run in runs) else ", not valid"
    if workload[2] == MEMORY:
        return f"{middle(runs, 'kib_each'):.1f} KiB each{invalid}"
    if workload[2] == LATENCY:
        return f"p50 {middle(runs, 'lat_us', 'p50'):.0f} / p99 {middle(runs, 'lat_us', 'p99'):.0f} µs{invalid}"
    work, tool = middle(runs, "broker_us_per_msg") * 1000, middle(runs, "tool_cpu")
    return f"{middle(runs, 'msgs_per_s'):,.0f}/s, {work:,.0f} ns, tool {tool:.2f} cores{invalid}"


if __name__ == "__main__":
    main()
