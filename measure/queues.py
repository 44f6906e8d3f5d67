#!/usr/bin/env python3
"""The tables of queues in docs/performance.md: thalweg beside RabbitMQ over AMQP 0-9-1 and STOMP, in one sitting, the same tool
on both.

Usage: queues.py [--runs 3] [--seconds 3] [--rtt-seconds 10] [--only NAME[,NAME]] [--workloads WORD[,WORD]] [--idle 4000]
                 [--disk DIR] [--thalweg PATH] [--set KEY=VALUE]... [--ports FIRST-LAST] [--out DIR] [--selftest] [--keep]

Builds amqpblast.c and stompblast.c with cc, starts each broker on loopback and in folders of its own, and runs each workload
against them in turn, RUNS rounds, each round in the other order, so that a noisy minute hits all of them. Every run has a
broker of its own, fresh and empty; with --keep one of each serves a whole round, but for idle connections, which halves
the time (three rounds: about 20 minutes, 11 with --keep). Medians with half the spread are printed as Markdown; raw rows go to DIR/queues.jsonl
(default ../bench-results/DATE-queues). Broker and tool share all cores.

--workloads chooses by words: every workload whose name contains one of them. --selftest first runs the tools against a peer
of their own, which says what they carry at most (a broker's rate is its own only where the tool's is far above).

thalweg runs with its defaults: the journal on, fsync always, before a persistent message is confirmed. RabbitMQ is Debian's,
with its defaults: classic queues, and quorum queues beside them where messages must survive. Both brokers sync before they
confirm, save what a consumer acknowledged before the sync, which needs none; the rows without a consumer leave that out.
A run in which a message is lost, doubled, out of order or unconfirmed does not count, and is named.
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
PATIENCE = 60
TOOLS = ("amqpblast", "stompblast")
# Name: tool and options. Windows are those at which RabbitMQ is fastest here: with more under way its flow control and its
# memory slow it down, with less it waits. "durable" is run twice on RabbitMQ, once per type of queue.
RATES = {
    "AMQP transient, auto-ack, 36 B, 1 pair": "amqpblast pairs --pairs 1 --window 5000 --size 36",
    "AMQP transient, auto-ack, 1 KB, 1 pair": "amqpblast pairs --pairs 1 --window 1000 --size 1024",
    "AMQP transient, auto-ack, 36 B, 10 pairs": "amqpblast pairs --pairs 10 --window 200 --size 36",
    "AMQP transient, auto-ack, 1 KB, 10 pairs": "amqpblast pairs --pairs 10 --window 200 --size 1024",
    "AMQP durable, confirms, acks, 36 B, 10 pairs": "amqpblast durable --pairs 10 --confirms 500 --size 36",
    "AMQP durable, confirms, acks, 1 KB, 10 pairs": "amqpblast durable --pairs 10 --confirms 500 --size 1024",
    "AMQP durable, confirms, no consumer, 36 B, 10 pairs": "amqpblast fill --pairs 10 --confirms 500 --size 36 --drain 60",
    "AMQP durable, confirms, no consumer, 1 KB, 10 pairs": "amqpblast fill --pairs 10 --confirms 500 --size 1024 --drain 60",
    "STOMP auto-ack, 36 B, 1 pair": "stompblast pairs --pairs 1 --window 1000 --size 36",
    "STOMP auto-ack, 1 KB, 1 pair": "stompblast pairs --pairs 1 --window 1000 --size 1024",
    "STOMP auto-ack, 36 B, 10 pairs": "stompblast pairs --pairs 10 --window 100 --size 36",
    "STOMP auto-ack, 1 KB, 10 pairs": "stompblast pairs --pairs 10 --window 100 --size 1024",
}
TRIPS = {
    "AMQP transient, 100 messages/s": "amqpblast rtt",
    "AMQP durable with confirms, 100 messages/s": "amqpblast rtt --durable --persistent --confirms 100 --prefetch 100",
    "STOMP, 100 messages/s": "stompblast rtt",
}
IDLE = {"AMQP idle: connection, channel, exclusive queue": "amqpblast idle"}
# The aims: ours against RabbitMQ's best.
BARS = {"AMQP transient": 8, "AMQP durable": 5, "STOMP": 8}
IDLE_BAR_KIB = 16


class Broker:
    """A fresh broker, with its data in a folder of its own."""

    def __init__(self, name, args):
        self.name, self.args, self.process = name, args, None
        self.folder = tempfile.mkdtemp(prefix=f"{name}-", dir=args.data)
        self.ports = {what: free_port(args.ports) for what in ("amqp", "stomp", "mqtt", "admin", "epmd", "dist")}

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.process and self.process.poll() is None:
            os.kill(self.pid(), signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                os.kill(self.pid(), signal.SIGKILL)
                self.process.wait()
        if self.name == "rabbitmq":
            # RabbitMQ's port mapper outlives it; this one is ours, on a port of its own. It stays while it knows of a node.
            kill = ["epmd", "-port", str(self.ports["epmd"]), "-kill"]
            for _ in range(20):
                if subprocess.run(kill, capture_output=True, check=False).returncode == 0:
                    break
                time.sleep(0.2)
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self):
        command, environment = self.command()
        deadline = time.monotonic() + PATIENCE
        self.log = os.path.join(self.folder, "log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **environment})
        ready = b"Server startup complete" if self.name == "rabbitmq" else b"ready: "
        while ready not in open(self.log, "rb").read():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"{self.name} does not start:\n" + open(self.log).read()[-3000:])
            time.sleep(0.05)
        # What a broker still tidies up after its start is not to be measured.
        time.sleep(1)

    def reset_peak(self):
        """Lets the highest resident memory count from here on."""
        with open(f"/proc/{self.pid()}/clear_refs", "w") as file:
            file.write("5")

    def pid(self):
        path = os.path.join(self.folder, "pid")
        return int(open(path).read()) if os.path.exists(path) else self.process.pid

    def command(self):
        inside, ports = lambda name: os.path.join(self.folder, name), self.ports
        if self.name == "thalweg":
            sets = [f"listeners.mqtt.bind=127.0.0.1:{ports['mqtt']}", "listeners.websocket.enabled=false",
                    f"listeners.amqp.bind=127.0.0.1:{ports['amqp']}", f"listeners.stomp.bind=127.0.0.1:{ports['stomp']}",
                    f"admin.bind=127.0.0.1:{ports['admin']}", *self.args.set]
            return [self.args.thalweg, "serve", "--data", inside("data")] + [f"--set={one}" for one in sets], {}
        if self.name == "rabbitmq":
            write(inside("rabbit.conf"), f"listeners.tcp.1 = 127.0.0.1:{ports['amqp']}\n"
                  f"stomp.listeners.tcp.1 = 127.0.0.1:{ports['stomp']}\nlog.console = true\nlog.file = false\n"
                  "log.console.level = info\nloopback_users = none\ndisk_free_limit.absolute = 100MB\n"
                  "vm_memory_high_watermark.relative = 0.4\n")
            write(inside("plugins"), "[rabbitmq_stomp].\n")
            # The script beside the libraries does not change the user.
            return ["/usr/lib/rabbitmq/bin/rabbitmq-server"], {
                "HOME": self.folder, "RABBITMQ_NODENAME": f"measured{ports['amqp']}@localhost",
                "ERL_EPMD_PORT": str(ports["epmd"]), "ERL_EPMD_ADDRESS": "127.0.0.1", "RABBITMQ_DIST_PORT": str(ports["dist"]),
                "RABBITMQ_MNESIA_BASE": inside("mnesia"), "RABBITMQ_LOG_BASE": inside("log.d"),
                "RABBITMQ_CONFIG_FILE": inside("rabbit.conf"), "RABBITMQ_ENABLED_PLUGINS_FILE": inside("plugins"),
                "RABBITMQ_PID_FILE": inside("pid")}
        raise SystemExit(f"unknown broker {self.name}")

    def run(self, options, *more):
        tool, mode, *rest = options.split()
        port = self.ports["amqp" if tool == "amqpblast" else "stomp"]
        command = [os.path.join(self.args.tools, tool), mode, "--port", port, "--pid", self.pid(), *rest, *more]
        try:
            done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=180, check=False)
            return json.loads(done.stdout)
        except (subprocess.TimeoutExpired, json.JSONDecodeError) as fault:
            said = "took too long" if isinstance(fault, subprocess.TimeoutExpired) else done.stdout + done.stderr
            print(f"{' '.join(map(str, command))}: {said}", file=sys.stderr)
            log = open(self.log, errors="replace").read().splitlines()
            print("\n".join(log[-15:]), file=sys.stderr)
            return {"valid": False, "said": said}


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def free_port(ports, taken=[]):
    """The next of the range that nobody listens on; used in turn, so that a port just left is not taken at once."""
    first, last = map(int, ports.split("-"))
    for _ in range(last - first + 1):
        port = (taken[-1] + 1 if taken and taken[-1] < last else first)
        taken.append(port)
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise SystemExit(f"no free port in {ports}")


class Results:
    def __init__(self, path):
        os.makedirs(path, exist_ok=True)
        self.file, self.all, self.invalid = open(os.path.join(path, "queues.jsonl"), "w"), {}, []

    def note(self, workload, broker, run, result):
        print(json.dumps({"workload": workload, "broker": broker, "run": run, "result": result}), file=self.file, flush=True)
        shown = {key: result[key] for key in ("msgs_per_s", "confirmed_per_s", "broker_us_per_msg", "tool_cpu", "kib_each")
                 if key in result}
        if result.get("rate"):
            shown = result["lat_us"]
        print(f"{run} {workload:48} {broker:16} {'' if result['valid'] else 'INVALID '}{shown}", file=sys.stderr, flush=True)
        if result["valid"]:
            self.all.setdefault((workload, broker), []).append(result)
        else:
            self.invalid.append(f"{workload}, {broker}, round {run}: " + (result.get("said", "").strip() or json.dumps(
                {key: result[key] for key in ("lost", "doubled", "out_of_order", "damaged", "strangers", "redelivered", "refused",
                                              "returned", "unconfirmed", "left", "stalled") if result.get(key)})))

    def median(self, workload, broker, *keys):
        values = []
        for result in self.all.get((workload, broker), []):
            for key in keys:
                result = result[key]
            values.append(result)
        return (statistics.median(values), (max(values) - min(values)) / 2) if values else None


def variants(name, workload):
    """The ways in which a broker does a workload: a label of the row, and further options."""
    if name == "rabbitmq" and "durable" in workload:
        return {"rabbitmq classic": [], "rabbitmq quorum": ["--queue-type", "quorum"]}
    return {name: []}


def labels(args, workload):
    return [label for name in args.brokers for label in variants(name, workload)]


def number(figure, form="{:,.0f}", spread=True):
    if not figure:
        return "–"
    text = form.format(figure[0])
    return text + (f" ±{figure[1] / figure[0] * 100:.0f} %" if spread and figure[0] else "")


def best(results, workload, key):
    rates = [results.median(workload, label, key) for label in ("rabbitmq", "rabbitmq classic", "rabbitmq quorum")]
    return max((rate[0] for rate in rates if rate), default=None)


def rate_rows(args, results, chosen):
    rows = ["| workload | broker | delivered | confirmed | broker CPU per message | cores: broker / tool | peak RSS | against RabbitMQ's best | aimed at |",
            "|---|---|--:|--:|--:|--:|--:|--:|--:|"]
    for workload in chosen:
        bar = next(bar for words, bar in BARS.items() if workload.startswith(words))
        for label in labels(args, workload):
            middle = lambda *keys: results.median(workload, label, *keys)
            delivered, confirmed = middle("msgs_per_s"), middle("confirmed_per_s")
            if not delivered:
                rows.append(f"| {workload} | {label} | – | – | – | – | – | – | |")
                continue
            ratio = ""
            if label == "thalweg" and (best(results, workload, "msgs_per_s") or best(results, workload, "confirmed_per_s")):
                # Where a broker delivers less than it confirms, or the other way round, the worse ratio counts.
                ratios = [middle(key)[0] / best(results, workload, key) for key in ("msgs_per_s", "confirmed_per_s")
                          if best(results, workload, key)]
                ratio = f"{min(ratios):.1f} ×"
            rows.append(f"| {workload} | {label} | {number(delivered, '{:,.0f}/s') if delivered[0] else ''} | "
                        f"{number(confirmed, '{:,.0f}/s') if confirmed[0] else ''} | "
                        f"{number(middle('broker_us_per_msg'), '{:,.2f} µs', False)} | {number(middle('broker_cpu'), '{:.2f}', False)} / "
                        f"{number(middle('tool_cpu'), '{:.2f}', False)} | "
                        f"{number(middle('rss_peak_mib'), '{:,.0f} MiB', False)} | {ratio} | {f'≥ {bar} ×' if ratio else ''} |")
    return rows


def trip_rows(args, results, chosen):
    rows = ["", "| round trip, 36 B | broker | p50 | p99 | p99.9 | confirmation p50 / p99 |", "|---|---|--:|--:|--:|--:|"]
    for workload in chosen:
        for label in labels(args, workload):
            of = lambda kind, q: number(results.median(workload, label, kind, q), "{:,.0f} µs", False)
            if not results.all.get((workload, label)):
                continue
            confirms = "confirm_us" in results.all[workload, label][0]
            rows.append(f"| {workload} | {label} | {of('lat_us', 'p50')} | {of('lat_us', 'p99')} | {of('lat_us', 'p999')} | "
                        + (f"{of('confirm_us', 'p50')} / {of('confirm_us', 'p99')} |" if confirms else "|"))
    return rows


def idle_rows(args, results, chosen):
    rows = ["", "| memory | broker | each | connections | aimed at |", "|---|---|--:|--:|--:|"]
    for workload in chosen:
        for label in labels(args, workload):
            each = results.median(workload, label, "kib_each")
            rows.append(f"| {workload} | {label} | {number(each, '{:,.1f} KiB')} | {args.idle:,} | "
                        f"{f'≤ {IDLE_BAR_KIB} KiB' if label == 'thalweg' else ''} |")
    return rows


def selftest(args):
    for tool in TOOLS:
        done = subprocess.run([os.path.join(args.tools, tool), "--selftest", "--port", str(free_port(args.ports)), "--seconds", "1"],
                              capture_output=True, text=True, check=False)
        for line in done.stdout.splitlines():
            row = json.loads(line)
            if row["valid"]:
                print(f"{tool} against its own peer: {row['mode']}, {row['pairs']} pairs, {row['size']} B: {row['msgs_per_s']:,}/s",
                      file=sys.stderr)
        if done.returncode:
            raise SystemExit(done.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--warmup", type=float, default=1)
    parser.add_argument("--rtt-seconds", type=float, default=10)
    parser.add_argument("--only", default="thalweg,rabbitmq")
    parser.add_argument("--workloads", default="")
    parser.add_argument("--idle", type=int, default=4000)
    parser.add_argument("--disk", default="/var/tmp")
    parser.add_argument("--thalweg", default=os.path.join(HERE, "../target/release/thalweg"))
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--ports", default="20400-20489")
    parser.add_argument("--out", default=os.path.join(HERE, f"../bench-results/{datetime.date.today()}-queues"))
    parser.add_argument("--selftest", action="store_true")
    parser.add_argument("--keep", action="store_true")
    args = parser.parse_args()
    args.brokers, words = args.only.split(","), [word for word in args.workloads.split(",") if word]
    args.tools = tempfile.mkdtemp(prefix="thalweg-tools-")
    args.data = tempfile.mkdtemp(prefix="thalweg-queues-", dir=args.disk)
    chosen = lambda workloads: [name for name in workloads if not words or any(word in name for word in words)]
    for tool in TOOLS:
        subprocess.run(["cc", "-O3", "-march=native", "-std=gnu11", "-Wall", "-Wextra", "-o", os.path.join(args.tools, tool),
                        os.path.join(HERE, tool + ".c")], check=True)
    results, kept = Results(args.out), {}
    try:
        if args.selftest:
            selftest(args)
        for run in range(args.runs):
            for workload, options in {**RATES, **TRIPS, **IDLE}.items():
                if workload not in chosen([workload]):
                    continue
                if workload in IDLE:
                    while kept:
                        kept.popitem()[1].__exit__()
                    options += f" --count {args.idle} --seconds 5"
                else:
                    options += f" --warmup {args.warmup} --seconds {args.rtt_seconds if workload in TRIPS else args.seconds}"
                for name in args.brokers if run % 2 == 0 else reversed(args.brokers):
                    for label, more in variants(name, workload).items():
                        if args.keep and workload not in IDLE:
                            broker = kept.get(name) or kept.setdefault(name, Broker(name, args).__enter__())
                            broker.reset_peak()
                            results.note(workload, label, run, broker.run(options, *more))
                            time.sleep(1)
                            continue
                        with Broker(name, args) as broker:
                            results.note(workload, label, run, broker.run(options, *more))
            while kept:
                kept.popitem()[1].__exit__()
    finally:
        while kept:
            kept.popitem()[1].__exit__()
        shutil.rmtree(args.data, ignore_errors=True)
        shutil.rmtree(args.tools, ignore_errors=True)
    rows = ["```sh", "python3 measure/queues.py " + " ".join(sys.argv[1:]), "```", ""]
    for workloads, table in ((RATES, rate_rows), (TRIPS, trip_rows), (IDLE, idle_rows)):
        if chosen(workloads):
            rows += table(args, results, chosen(workloads))
    print("\n".join(rows))
    if results.invalid:
        print("\nnot counted:\n\n" + "\n".join(f"- {line}" for line in results.invalid))


if __name__ == "__main__":
    main()
