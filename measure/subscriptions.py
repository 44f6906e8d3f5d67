#!/usr/bin/env python3
"""A million distinct subscriptions, wildcards among them: memory each, and what the storm does to a publisher.

Usage: subscriptions.py PORT PID [COUNT]

An established pair publishes and receives 2,000 messages a second (QoS 0) while COUNT/10,000 sessions subscribe as fast
as they are answered. Prints one line of JSON: bytes of resident memory per subscription, the pair's latency before,
during and after the storm, and what was lost (must be nothing).
"""
import json
import socket
import struct
import sys
import threading
import time

PORT, PID = int(sys.argv[1]), int(sys.argv[2])
COUNT = int(sys.argv[3]) if len(sys.argv) > 3 else 1_000_000
PER_SESSION, PER_PACKET = 10_000, 250


def length(n):
    out = bytearray()
    while True:
        n, low = n >> 7, n & 127
        out.append(low | (128 if n else 0))
        if not n:
            return bytes(out)


def text(s):
    return struct.pack(">H", len(s)) + s


def packet(first, body):
    return bytes([first]) + length(len(body)) + body


def connect(name):
    sock = socket.create_connection(("127.0.0.1", PORT))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(packet(0x10, text(b"MQTT") + b"\x04\x02\x00\x00" + text(name)))
    assert sock.recv(4) == b"\x20\x02\x00\x00"
    return sock


def rss():
    with open(f"/proc/{PID}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) * 1024


def subscribe(sock, filters, packet_id):
    body = struct.pack(">H", packet_id) + b"".join(text(f) + b"\0" for f in filters)
    sock.sendall(packet(0x82, body))


def wait_suback(sock, n):
    want = 1 + len(length(2 + n)) + 2 + n
    got = b""
    while len(got) < want:
        got += sock.recv(65536)
    assert got[0] == 0x90 and 0x80 not in got[-n:], got[:16]


stop = threading.Event()
latencies, phase, sent, received = {"before": [], "storm": [], "after": []}, "before", [0], [0]


def publish():
    sock = connect(b"storm-pub")
    due = time.perf_counter()
    while not stop.is_set():
        due += 0.0005
        while time.perf_counter() < due:
            time.sleep(0.0002)
        sock.sendall(packet(0x30, text(b"pair/x") + struct.pack(">d", time.perf_counter())))
        sent[0] += 1


def receive(sock):
    left = b""
    while True:
        chunk = sock.recv(65536)
        if not chunk:
            return
        now, left = time.perf_counter(), left + chunk
        while len(left) >= 18:
            latencies[phase].append(now - struct.unpack(">d", left[10:18])[0])
            left, received[0] = left[18:], received[0] + 1


pair = connect(b"storm-sub")
subscribe(pair, [b"pair/x"], 1)
wait_suback(pair, 1)
threads = [threading.Thread(target=publish, daemon=True), threading.Thread(target=receive, args=(pair,), daemon=True)]
for thread in threads:
    thread.start()
time.sleep(2)
before, phase, begun = rss(), "storm", time.perf_counter()
sessions = []
for session in range(COUNT // PER_SESSION):
    sock = connect(b"storm-%d" % session)
    for start in range(0, PER_SESSION, PER_PACKET):
        numbers = range(session * PER_SESSION + start, session * PER_SESSION + start + PER_PACKET)
        # One in ten holds a wildcard; about 30 bytes each.
        filters = [b"plant/%03d/line/%07d/temp/%s" % (n % 997, n, b"+" if n % 10 == 0 else b"v") for n in numbers]
        subscribe(sock, filters, start // PER_PACKET + 1)
        wait_suback(sock, PER_PACKET)
    sessions.append(sock)
took, after, phase = time.perf_counter() - begun, rss(), "after"
time.sleep(2)
stop.set()
threads[0].join()
time.sleep(0.5)
quantile = lambda values, q: round(sorted(values)[int(q * (len(values) - 1))] * 1e6)
print(json.dumps({
    "subscriptions": COUNT,
    "seconds": round(took, 2),
    "bytes_each": round((after - before) / COUNT, 1),
    "sent": sent[0],
    "received": received[0],
    "latency_us": {name: {"p50": quantile(v, 0.5), "p99": quantile(v, 0.99)} for name, v in latencies.items() if v},
}))
