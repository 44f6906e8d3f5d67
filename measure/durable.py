#!/usr/bin/env python3
"""What an acknowledgement that survives costs: the durability table of docs/performance.md, thalweg beside its peers, in one
sitting, each peer's policy beside its figure.

Usage: durable.py [--runs 3] [--seconds 5] [--only NAME[,NAME]] [--parts load,latency,restart,bytes,large] [--disk DIR]
                  [--thalweg PATH] [--out FILE] [--scale 1.0]

    load     QoS 1, 256 B, 100 publishers with window 20 into one durable session: offline, and online
    latency  one publisher, window 1: the acknowledgement beside one write and fdatasync of the same disk
    restart  100,000 sessions, 1,000,000 queued messages, kill -9: until the broker is ready again (thalweg)
    bytes    written per message, enqueue and acknowledge (thalweg)
    large    10,000,000 queued messages of 100 B: resident memory (thalweg)

MQTT brokers are loaded by durablast.c, RabbitMQ over AMQP and JetStream over its own protocol by durable_peers/ (Go): the
same number of connections, windows and bytes. Data lies in DIR (default: /var/tmp), which must be a real disk. Rounds
alternate between brokers, so that a noisy minute hits all of them; medians with half the spread are printed as Markdown.
A peer that is not installed is left out and named. --scale 0.01 tries everything with a hundredth of the counts.
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
PATIENCE = 120
# Name: policy, in the words of its broker.
POLICIES = {
    "thalweg": "fsync always (default)",
    "thalweg-interval": "fsync interval 50 ms",
    "thalweg-never": "fsync never",
    "thalweg-memory": "journal off",
    "rabbitmq-quorum": "quorum queue, 1 node, confirms: fsync first",
    "rabbitmq-classic": "durable classic queue, persistent, confirms: fsync first",
    "nats": "JetStream R1 file, sync_interval always",
    "nats-mqtt": "MQTT on JetStream R1 file, sync_interval always",
    "mosquitto": "2.0, persistence: in memory, written every 30 min",
}
SYNC_FIRST = {"rabbitmq-quorum", "rabbitmq-classic", "nats", "nats-mqtt"}


class Broker:
    """A broker on a folder of its own; what is left there, a second start finds."""

    def __init__(self, name, args, folder, sets=()):
        self.name, self.args, self.sets = name, args, sets
        self.folder = tempfile.mkdtemp(prefix=f"{name}-", dir=folder)
        self.port, self.port2, self.epmd = free_port(), free_port(), free_port()
        self.process = None

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self):
        """Starts it; the seconds until it was ready."""
        begun = time.monotonic()
        self.log = open(os.path.join(self.folder, "log"), "wb")
        command, environment = self.command()
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, env={**os.environ, **environment})
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > begun + PATIENCE:
                raise SystemExit(f"{self.name} does not start:\n" + open(self.log.name).read()[-3000:])
            time.sleep(0.002)
        return time.monotonic() - begun

    def is_ready(self):
        if self.name.startswith("thalweg"):
            return b"ready: " in open(self.log.name, "rb").read()
        if self.name.startswith("rabbitmq"):
            return b"Server startup complete" in open(self.log.name, "rb").read()
        try:
            socket.create_connection(("127.0.0.1", self.port), 0.2).close()
            return True
        except OSError:
            return False

    def pid(self):
        if self.name.startswith("rabbitmq"):
            return int(open(os.path.join(self.folder, "pid")).read())
        return self.process.pid

    def kill(self):
        os.kill(self.pid(), signal.SIGKILL)
        self.process.wait()

    def stop(self):
        if self.process and self.process.poll() is None:
            os.kill(self.pid(), signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()
        if self.name.startswith("rabbitmq"):
            # RabbitMQ's port mapper outlives it; this one is ours, on a port of its own. It stays while it knows of a node.
            kill = ["epmd", "-port", str(self.epmd), "-kill"]
            for _ in range(20):
                if subprocess.run(kill, capture_output=True, check=False).returncode == 0:
                    break
                time.sleep(0.2)

    def command(self):
        port, inside = self.port, lambda name: os.path.join(self.folder, name)
        if self.name.startswith("thalweg"):
            policy = {"thalweg-interval": ["journal.fsync=interval"], "thalweg-never": ["journal.fsync=never"],
                      "thalweg-memory": ["journal.enabled=false"]}.get(self.name, [])
            sets = [f"listeners.mqtt.bind=127.0.0.1:{port}", "listeners.websocket.enabled=false",
                    f"admin.bind=127.0.0.1:{self.port2}", "sys.interval=off", "queue.messages_max=100000000",
                    "queue.bytes_max=64GiB", *policy, *self.sets]
            return [self.args.thalweg, "serve", "--data", inside("data")] + [f"--set={one}" for one in sets], {}
        if self.name == "mosquitto":
            write(inside("conf"), f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\nuser root\n"
                  f"max_inflight_messages 0\nset_tcp_nodelay true\npersistence true\npersistence_location {self.folder}/\n")
            return [shutil.which("mosquitto") or "/usr/sbin/mosquitto", "-c", inside("conf")], {}
        if self.name.startswith("nats"):
            listen = [self.port2, port] if self.name == "nats-mqtt" else [port, self.port2]
            write(inside("conf"), f'listen: "127.0.0.1:{listen[0]}"\nserver_name: measured\nwrite_deadline: "60s"\n'
                  f'jetstream {{ store_dir: "{self.folder}", sync_interval: always }}\n'
                  f'mqtt {{ listen: "127.0.0.1:{listen[1]}", max_ack_pending: 30000 }}\n')
            return [nats(), "-c", inside("conf")], {}
        if self.name.startswith("rabbitmq"):
            write(inside("rabbit.conf"), f"listeners.tcp.1 = 127.0.0.1:{port}\nlog.console = true\nlog.file = false\n"
                  f"loopback_users = none\ndisk_free_limit.absolute = 100MB\n")
            write(inside("plugins"), "[].\n")
            return [rabbitmq()], {
                "HOME": self.folder, "RABBITMQ_NODENAME": f"measured{port}@localhost", "ERL_EPMD_PORT": str(self.epmd),
                "RABBITMQ_MNESIA_BASE": inside("mnesia"), "RABBITMQ_LOG_BASE": inside("log.d"),
                "RABBITMQ_CONFIG_FILE": inside("rabbit.conf"), "RABBITMQ_ENABLED_PLUGINS_FILE": inside("plugins"),
                "RABBITMQ_DIST_PORT": str(self.port2), "RABBITMQ_PID_FILE": inside("pid"), "ERL_EPMD_ADDRESS": "127.0.0.1"}
        raise SystemExit(f"unknown broker {self.name}")

    def load(self, pubs, window, seconds, online):
        common = ["--pubs", pubs, "--window", window, "--size", 256, "--seconds", seconds, "--pid", self.pid()]
        if self.name.startswith("rabbitmq"):
            queue = self.name.split("-")[1]
            return self.tool("durable_peers", "amqp", "--url", f"amqp://127.0.0.1:{self.port}", "--queue", queue, *common,
                             *(["--online"] if online else []))
        if self.name == "nats":
            return self.tool("durable_peers", "jetstream", "--url", f"nats://127.0.0.1:{self.port}", *common,
                             *(["--online"] if online else []))
        if not online:
            self.tool("durablast", "sessions", "--port", self.port, "--count", 1)
        return self.tool("durablast", "publish", "--port", self.port, *common, "--warmup", 1,
                         *(["--subscriber", "online"] if online else []))

    def tool(self, tool, word, *options):
        return run([os.path.join(self.args.folder, tool), word, *map(str, options)])


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        print(f"{' '.join(command)}: {done.stdout}{done.stderr}", file=sys.stderr)
        return None


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def free_port(taken=set()):
    """One of 22000-22999 that nobody listens on: not one that the system hands out to connections meanwhile."""
    for port in range(22000, 23000):
        with socket.socket() as s:
            if port in taken or s.connect_ex(("127.0.0.1", port)) == 0:
                continue
            taken.add(port)
            return port
    raise SystemExit("no free port in 22000-22999")


def nats():
    return os.environ.get("NATS_SERVER") or shutil.which("nats-server") or os.path.expanduser("~/go/bin/nats-server")


def rabbitmq():
    # The one beside the libraries does not change the user.
    return "/usr/lib/rabbitmq/bin/rabbitmq-server"


def is_installed(name):
    if name.startswith("nats"):
        return os.path.exists(nats())
    if name.startswith("rabbitmq"):
        return os.path.exists(rabbitmq())
    if name == "mosquitto":
        return bool(shutil.which("mosquitto")) or os.path.exists("/usr/sbin/mosquitto")
    return True


class Results:
    def __init__(self, path):
        self.file, self.all = open(path, "w"), {}

    def note(self, what, broker, result):
        print(json.dumps({"what": what, "broker": broker, "result": result}), file=self.file, flush=True)
        shown = {key: result[key] for key in result if key in ("acked_per_s", "received_per_s", "lat_us", "p50_us")} if result else None
        print(f"{what:10} {broker:18} {shown or result}", file=sys.stderr, flush=True)
        if result:
            self.all.setdefault((what, broker), []).append(result)

    def median(self, what, broker, *keys):
        values = []
        for result in self.all.get((what, broker), []):
            for key in keys:
                result = result[key]
            values.append(result)
        return (statistics.median(values), (max(values) - min(values)) / 2) if values else None


def load(args, brokers, results):
    for _ in range(args.runs):
        for what, online in (("offline", False), ("online", True)):
            for name in brokers:
                with Broker(name, args, args.data) as broker:
                    results.note(what, name, broker.load(100, 20, args.seconds, online))
    fastest = max((results.median("offline", name, "acked_per_s") or (0,) for name in SYNC_FIRST))[0]
    rows = ["| QoS 1, 256 B, 100 publishers, window 20 | policy | offline session | broker CPU | acknowledgement p50 / p99 | online session |",
            "|---|---|--:|--:|--:|--:|"]
    for name in brokers:
        offline, online = results.median("offline", name, "acked_per_s"), results.median("online", name, "received_per_s")
        if not offline:
            continue
        cpu = results.median("offline", name, "broker_cpu_us_per_msg")
        p50, p99 = results.median("offline", name, "lat_us", "p50"), results.median("offline", name, "lat_us", "p99")
        rows.append(f"| {name} | {POLICIES[name]} | {rate(offline)} | {cpu[0]:.2f} µs | {p50[0] / 1000:.1f} / {p99[0] / 1000:.1f} ms | "
                    f"{rate(online)} |")
    ours, memory = results.median("online", "thalweg", "received_per_s"), results.median("online", "thalweg-memory", "received_per_s")
    always = results.median("offline", "thalweg", "acked_per_s")
    if always and fastest:
        rows.append(f"\nthalweg, offline: {always[0] / fastest:.1f} × the fastest peer that syncs before it acknowledges")
    if ours and memory:
        rows.append(f"thalweg, online: {ours[0] / memory[0]:.2f} × the same in memory")
    return rows


def rate(figure):
    return f"{figure[0]:,.0f}/s ±{figure[1] / figure[0] * 100:.0f} %" if figure and figure[0] else "–"


def latency(args, brokers, results):
    sync, path = os.path.join(args.folder, "durablast"), os.path.join(args.data, "sync-probe")
    # 300 bytes are what a broker writes for 256; the first look makes the file.
    probe = lambda seconds: run([sync, "sync", "--file", path, "--size", "300", "--seconds", str(seconds)])
    probe(1)
    for name in brokers:
        with Broker(name, args, args.data) as broker:
            broker.load(1, 1, 1, False)
            time.sleep(2)
            # In short turns: a disk's latency is the minute's, and who is compared with it must have the same minute.
            for _ in range(args.runs * 2):
                results.note("fdatasync", name, probe(args.seconds / 5))
                results.note("window 1", name, broker.load(1, 1, args.seconds / 5, False))
    rows = ["\n| one publisher, window 1 | policy | acknowledgement p50 | one fdatasync, in turns with it | ratio |", "|---|---|--:|--:|--:|"]
    for name in brokers:
        p50, disk = results.median("window 1", name, "lat_us", "p50"), results.median("fdatasync", name, "p50_us")
        if p50:
            rows.append(f"| {name} | {POLICIES[name]} | {p50[0]:,.0f} µs ±{p50[1]:,.0f} | {disk[0]:,.0f} µs ±{disk[1]:,.0f} | "
                        f"{p50[0] / disk[0]:.2f} |")
    return rows


def restart(args, _, results):
    sessions, messages = int(100_000 * args.scale), int(1_000_000 * args.scale)
    rows = []
    for _ in range(args.runs):
        with Broker("thalweg", args, args.data) as broker:
            port = ["--port", broker.port]
            broker.tool("durablast", "sessions", *port, "--count", sessions, "--id", "s", "--topic", "own")
            broker.tool("durablast", "publish", *port, "--pubs", 100, "--window", 20, "--count", messages, "--topic", "own",
                        "--topics", sessions)
            time.sleep(1)
            broker.kill()
            killed = broker.start()
            after_kill = figures(broker.pid())
            time.sleep(2)
            broker.stop()
            stopped = broker.start()
            results.note("restart", "thalweg", {"after_kill_s": killed, "after_stop_s": stopped, **after_kill})
    killed, stopped = results.median("restart", "thalweg", "after_kill_s"), results.median("restart", "thalweg", "after_stop_s")
    rows.append(f"\nrestart with {messages:,} queued messages and {sessions:,} sessions: ready {killed[0]:.2f} s ±{killed[1]:.2f} after "
                f"kill -9, {stopped[0]:.2f} s after an orderly stop; "
                f"{results.median('restart', 'thalweg', 'rss_mib')[0]:,.0f} MiB of RSS then")
    return rows


def bytes_per_message(args, _, results):
    messages = int(2_000_000 * args.scale)
    for _ in range(args.runs):
        with Broker("thalweg", args, args.data) as broker:
            broker.tool("durablast", "sessions", "--port", broker.port, "--count", 1)
            time.sleep(5)
            before, journal = device_bytes(args.data), journal_bytes(broker)
            broker.tool("durablast", "publish", "--port", broker.port, "--pubs", 100, "--window", 20, "--size", 256, "--count", messages)
            journal_enqueued = journal_bytes(broker)
            drained = broker.tool("durablast", "drain", "--port", broker.port, "--id", "durable", "--count", messages)
            time.sleep(1)
            os.sync()
            after, journal_after = device_bytes(args.data), journal_bytes(broker)
            results.note("bytes", "thalweg", {
                "device": (after - before) / messages,
                "journal": (journal_after - journal) / messages, "journal_enqueue": (journal_enqueued - journal) / messages,
                "drained_per_s": drained["received_per_s"] if drained else 0})
    median = lambda key: results.median("bytes", "thalweg", key)[0]
    return [f"\nbytes per 256 B message, enqueue and acknowledge: {median('journal'):.0f} of journal ({median('journal_enqueue'):.0f} to "
            f"enqueue), {median('device'):.0f} to the device in all, new segments' zeroes and checkpoints among them; "
            f"the queue drained at {median('drained_per_s'):,.0f}/s"]


def large(args, _, results):
    messages = int(10_000_000 * args.scale)
    with Broker("thalweg", args, args.data) as broker:
        broker.tool("durablast", "sessions", "--port", broker.port, "--count", 1)
        done = broker.tool("durablast", "publish", "--port", broker.port, "--pubs", 100, "--window", 20, "--size", 100, "--count", messages)
        queued = figures(broker.pid())
        drained = broker.tool("durablast", "drain", "--port", broker.port, "--id", "durable", "--count", messages)
        results.note("large", "thalweg", {"acked_per_s": done["acked_per_s"], "rss_mib": queued["rss_mib"],
                                          "rss_peak_mib": queued["rss_peak_mib"], "received": drained["received"],
                                          "received_per_s": drained["received_per_s"],
                                          "rss_peak_drained_mib": figures(broker.pid())["rss_peak_mib"]})
    median = lambda key: results.median("large", "thalweg", key)[0]
    return [f"\n{messages:,} queued messages of 100 B: {median('rss_mib'):,.0f} MiB of RSS ({median('rss_peak_mib'):,.0f} at its peak, "
            f"{median('rss_peak_drained_mib'):,.0f} while drained); taken at {median('acked_per_s'):,.0f}/s, "
            f"{median('received'):,.0f} delivered at {median('received_per_s'):,.0f}/s"]


def figures(pid):
    status = dict(line.split(":", 1) for line in open(f"/proc/{pid}/status") if ":" in line)
    kib = lambda name: int(status[name].split()[0]) / 1024
    return {"rss_mib": kib("VmRSS"), "rss_peak_mib": kib("VmHWM")}


def device_bytes(path):
    """What was written to the disk that holds `path`, by anybody: the process's own figure counts whole pages of any size."""
    device = os.stat(path).st_dev
    return int(open(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat").read().split()[6]) * 512


def journal_bytes(broker):
    """What the broker says it has written to its journal; 0 if it does not."""
    done = subprocess.run(["curl", "-s", f"http://127.0.0.1:{broker.port2}/metrics"], capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("thalweg_journal_") and "bytes" in line and "total" in line]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if "written" in line)


PARTS = {"load": load, "latency": latency, "restart": restart, "bytes": bytes_per_message, "large": large}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--only", default=",".join(POLICIES))
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--disk", default="/var/tmp")
    parser.add_argument("--thalweg", default=os.path.join(HERE, "../target/release/thalweg"))
    parser.add_argument("--out", default="/dev/null")
    parser.add_argument("--scale", type=float, default=1.0)
    args = parser.parse_args()
    args.folder = tempfile.mkdtemp(prefix="thalweg-tools-")
    args.data = tempfile.mkdtemp(prefix="thalweg-durable-", dir=args.disk)
    subprocess.run(["cc", "-O3", "-march=native", "-std=gnu11", "-o", os.path.join(args.folder, "durablast"),
                    os.path.join(HERE, "durablast.c")], check=True)
    brokers = [name for name in args.only.split(",") if is_installed(name)]
    for name in set(args.only.split(",")) - set(brokers):
        print(f"{name} is not installed; left out", file=sys.stderr)
    if any(name in ("nats", "rabbitmq-quorum", "rabbitmq-classic") for name in brokers):
        subprocess.run(["go", "build", "-buildvcs=false", "-o", os.path.join(args.folder, "durable_peers"), "."],
                       cwd=os.path.join(HERE, "durable_peers"), check=True)
    results, rows = Results(args.out), []
    try:
        for part in args.parts.split(","):
            rows += PARTS[part](args, brokers, results)
    finally:
        shutil.rmtree(args.data, ignore_errors=True)
        shutil.rmtree(args.folder, ignore_errors=True)
    print("\n".join(rows))


if __name__ == "__main__":
    main()
