#!/usr/bin/env python3
"""What TLS costs the broker's XMPP: the same items with and without it.

Usage: xmpp_tls.py [--runs 3] [--count 100000] [--thalweg PATH]

One client publishes COUNT items of 72 octets to a node, another is subscribed to it with XEP-0198; both are `thalweg pub` and
`thalweg sub`, which keep as much on the way as they do at any broker. Once over TCP and once over TLS 1.3 (`xmpps`), RUNS times in
turn, with a broker of its own for each and without a journal. Needs openssl for a certificate. Prints medians of the broker's processor
time for an item, log-ins and handshakes included. Exit status 1 if an item is lost.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from zeromq import free_port, wait_for

HERE = pathlib.Path(__file__).resolve().parent


def processor_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def certificate(folder):
    extensions = [part for text in ["subjectAltName=DNS:localhost", "basicConstraints=critical,CA:FALSE"] for part in ["-addext", text]]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
                    "-subj", "/CN=localhost", *extensions, "-keyout", folder / "key.pem", "-out", folder / "certificate.pem"],
                   check=True, capture_output=True)


def run(args, folder, scheme):
    """Microseconds of the broker's for an item, and items a second; None if one is lost."""
    ports = {name: free_port() for name in ["tcp", "tls"]}
    sets = {"journal.enabled": "false", "admin.enabled": "false", "listeners.tcp.kind": "xmpp", "listeners.tls.kind": "xmpp",
            "listeners.tcp.bind": f"127.0.0.1:{ports['tcp']}", "listeners.tls.bind": f"127.0.0.1:{ports['tls']}",
            "listeners.tls.transport": "tls", "listeners.tls.tls.certificate": folder / "certificate.pem",
            "listeners.tls.tls.key": folder / "key.pem"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    broker = subprocess.Popen([args.thalweg, "serve", *(f"--set={key}={value}" for key, value in sets.items())], **quiet)
    try:
        wait_for(ports["tcp"])
        trust = ["--ca", folder / "certificate.pem"] if scheme == "xmpps" else []
        port = ports["tls" if scheme == "xmpps" else "tcp"]
        client = ["--url", f"{scheme}://localhost:{port}", *trust, "-q", "1", "-c", str(args.count)]
        subscriber = subprocess.Popen([args.thalweg, "sub", *client, "t"], **quiet)
        time.sleep(2)
        before, began = processor_seconds(broker.pid), time.monotonic()
        publisher = subprocess.run([args.thalweg, "pub", *client, "t", "-m", "x" * 72], timeout=600, **quiet)
        is_whole = subscriber.wait(60) == 0 and publisher.returncode == 0
        took, used = time.monotonic() - began, processor_seconds(broker.pid) - before
        return (used * 1e6 / args.count, args.count / took) if is_whole else None
    except subprocess.TimeoutExpired:
        subscriber.kill()
        return None
    finally:
        broker.terminate()
        broker.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--thalweg", default=HERE.parent / "target/release/thalweg")
    args = parser.parse_args()
    results = {"xmpp": [], "xmpps": []}
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="thalweg-measure-") as name:
        folder = pathlib.Path(name)
        certificate(folder)
        for _ in range(args.runs):
            for scheme, found in results.items():
                found.append(run(args, folder, scheme))
                print(scheme, found[-1], file=sys.stderr, flush=True)
    if None in results["xmpp"] + results["xmpps"]:
        sys.exit("items were lost")
    print(f"load average before the first run {load:.1f}\n\n| transport | broker, each item | items/s |\n|---|--:|--:|")
    for scheme, transport in [("xmpp", "TCP"), ("xmpps", "TLS 1.3")]:
        work, rate = (statistics.median(run[at] for run in results[scheme]) for at in [0, 1])
        print(f"| {transport} | {work:.2f} µs | {rate:,.0f} |")


if __name__ == "__main__":
    main()
