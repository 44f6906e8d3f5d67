#!/usr/bin/env python3
"""Measures what a message costs over TCP on this kernel when packets are lost.

Two network namespaces of its own, a TUN device in each, and between them this process as the link: every packet is
dropped with probability `--loss` (seeded) or forwarded after half of `--rtt`. Client and broker are the smallest that
behave like MQTT's: length-prefixed messages, `--qos` as MQTT's, TCP_NODELAY. One line of JSON per run:
latencies of first arrival and of the settlement, Ethernet-frame bytes (IP packet + 14), and sums of tcp_info.
Needs root. Writes nothing outside its namespaces.

From some 15 % loss on a mean is made by waits of many seconds that come once in minutes: 100 flows of 112 s and not fewer, or it says
less than half. `--congestion` is what TCP does with its window (Linux's default); BBR's waits are about half as long.

    unshare -n python3 tcp.py --loss 0.2 --rtt 0.05 --payload 60 --rate 1 --flows 40 --seconds 50 --qos 1
"""
import argparse, ctypes, fcntl, heapq, json, os, random, select, socket, struct, subprocess, time

libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000


def namespace():
    if libc.unshare(CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare")
    return os.open("/proc/self/ns/net", os.O_RDONLY)


def enter(ns):
    if libc.setns(ns, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


def tun(name, address):
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, 0x400454CA, struct.pack("16sH", name.encode(), 0x1001))  # IFF_TUN | IFF_NO_PI
    for line in (f"ip addr add {address}/24 dev {name}", f"ip link set {name} mtu 1500 up", "ip link set lo up"):
        subprocess.run(line.split(), check=True)
    return fd


def tcp_info(sock):
    raw = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 240)
    raw = raw + b"\0" * (240 - len(raw))
    u32 = struct.unpack_from("<24I", raw, 8)
    segs_out, segs_in = struct.unpack_from("<2I", raw, 136)
    data_segs_out = struct.unpack_from("<I", raw, 156)[0]
    bytes_sent, bytes_retrans, dsack = struct.unpack_from("<QQI", raw, 200)
    return dict(rtt_us=u32[15], rttvar_us=u32[16], retrans=u32[23], segs_out=segs_out, segs_in=segs_in,
                data_segs_out=data_segs_out, bytes_sent=bytes_sent, dsack=dsack)


def main():
    p = argparse.ArgumentParser()
    for name, kind, default in (("loss", float, 0), ("rtt", float, 0), ("payload", int, 60), ("overhead", int, 24),
                                ("rate", float, 1), ("flows", int, 40), ("seconds", float, 50), ("qos", int, 1),
                                ("seed", int, 1), ("congestion", str, "cubic")):
        p.add_argument("--" + name, type=kind, default=default)
    a = p.parse_args()
    throw = random.Random(a.seed)
    try: os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(5))  # a busy machine is not what is measured
    except PermissionError: pass
    ns_c = namespace(); tun_c = tun("tc", "10.9.0.1")
    ns_b = namespace(); tun_b = tun("tb", "10.9.0.2")
    now = time.monotonic

    listener = socket.socket(); listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("10.9.0.2", 1883)); listener.listen(512); listener.setblocking(False)
    enter(ns_c)
    poll = select.epoll()
    for fd in (tun_c, tun_b, listener.fileno()):
        poll.register(fd, select.EPOLLIN)

    link, order = [], 0           # packets under way
    frames = {tun_c: 0, tun_b: 0}; octets = {tun_c: 0, tun_b: 0}; lossy = False
    conns, socks = {}, []
    arrive, settle = [], []       # latencies in s
    published = {}
    body = a.payload + a.overhead

    class Conn:
        def __init__(s, sock, is_client):
            s.sock, s.is_client, s.inbox, s.outbox = sock, is_client, b"", b""
            sock.setblocking(False); sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, a.congestion.encode())
            conns[sock.fileno()] = s; poll.register(sock.fileno(), select.EPOLLIN)
        def send(s, data):
            s.outbox += data; s.flush()
        def flush(s):
            try:
                while s.outbox:
                    s.outbox = s.outbox[s.sock.send(s.outbox):]
                poll.modify(s.sock.fileno(), select.EPOLLIN)
            except BlockingIOError:
                poll.modify(s.sock.fileno(), select.EPOLLIN | select.EPOLLOUT)
        def readable(s):
            try:
                data = s.sock.recv(1 << 16)
            except (BlockingIOError, ConnectionError):
                return
            s.inbox += data
            t, reply = now(), b""
            while len(s.inbox) >= 4:
                kind, flow, seq = s.inbox[0], s.inbox[1], struct.unpack_from(">H", s.inbox, 2)[0]
                size = body if kind == 1 else 4
                if len(s.inbox) < size:
                    break
                s.inbox = s.inbox[size:]
                if kind == 1:             # PUBLISH at the broker
                    if (flow, seq) in published:
                        arrive.append(t - published[flow, seq])
                    if a.qos: reply += struct.pack(">BBH", 2 if a.qos == 1 else 3, flow, seq)
                elif kind == 3:           # PUBREC
                    reply += struct.pack(">BBH", 4, flow, seq)
                elif kind == 4:           # PUBREL
                    reply += struct.pack(">BBH", 2, flow, seq)
                elif kind == 2 and (flow, seq) in published:
                    settle.append(t - published.pop((flow, seq)))
            if reply: s.send(reply)

    def turn(until):
        nonlocal order
        t = now()
        while link and link[0][0] <= t:
            _, _, fd, packet = heapq.heappop(link)
            try: os.write(fd, packet)
            except OSError: pass
        wait = min(until, link[0][0] if link else until) - now()
        for fd, event in poll.poll(max(0, wait)):
            if fd in (tun_c, tun_b):
                while True:
                    try: packet = os.read(fd, 2048)
                    except BlockingIOError: break
                    if packet[0] >> 4 != 4: continue
                    frames[fd] += 1; octets[fd] += len(packet) + 14
                    if lossy and throw.random() < a.loss: continue
                    other = tun_b if fd == tun_c else tun_c
                    if a.rtt == 0: os.write(other, packet)
                    else: order += 1; heapq.heappush(link, (now() + a.rtt / 2, order, other, packet))
            elif fd == listener.fileno():
                while True:
                    try: Conn(listener.accept()[0], False)
                    except BlockingIOError: break
            elif fd in conns:
                if event & select.EPOLLOUT: conns[fd].flush()
                if event & ~select.EPOLLOUT: conns[fd].readable()

    for flow in range(a.flows):
        sock = socket.socket(); sock.setblocking(False)
        try: sock.connect(("10.9.0.2", 1883))
        except BlockingIOError: pass
        socks.append(sock)
    end = now() + 0.5 + 2 * a.rtt
    while now() < end: turn(end)
    clients = [Conn(s, True) for s in socks]

    warm, seq = 8.0, [0] * a.flows
    t0 = now(); due = [(t0 + i / a.flows / a.rate, i) for i in range(a.flows)]; heapq.heapify(due)
    lossy, is_warm, sent = True, False, 0
    base_f, base_o, base_i = dict(frames), dict(octets), None
    cpu = time.process_time()
    while now() < t0 + warm + a.seconds:
        if not is_warm and now() >= t0 + warm:
            is_warm = True; base_f, base_o = dict(frames), dict(octets); sent = 0
            arrive.clear(); settle.clear(); base_i = [tcp_info(s) for s in socks]
        while due[0][0] <= now():
            t, i = due[0]
            heapq.heapreplace(due, (t + 1 / a.rate, i))
            seq[i] = (seq[i] + 1) & 0xFFFF
            published[i, seq[i]] = t; sent += 1
            clients[i].send(struct.pack(">BBH", 1, i, seq[i]) + bytes(body - 4))
        turn(due[0][0])
    info = [tcp_info(s) for s in socks]
    up_f, up_o = frames[tun_c] - base_f[tun_c], octets[tun_c] - base_o[tun_c]
    down_f, down_o = frames[tun_b] - base_f[tun_b], octets[tun_b] - base_o[tun_b]
    late = sum(1 for t in published.values() if t > t0 + warm) if a.qos else sent - len(arrive)
    sums = {k: sum(b[k] - c[k] for b, c in zip(info, base_i)) for k in ("retrans", "dsack", "segs_out", "data_segs_out")}
    def stat(v):
        v = sorted(v); n = len(v)
        return dict(n=n, mean_ms=round(sum(v) / n * 1e3, 2), p50_ms=round(v[n // 2] * 1e3, 2), p90_ms=round(v[n * 9 // 10] * 1e3, 2),
                    p99_ms=round(v[n * 99 // 100] * 1e3, 2)) if n else None
    print(json.dumps(dict(loss=a.loss, rtt=a.rtt, payload=a.payload, overhead=a.overhead, rate=a.rate, qos=a.qos, congestion=a.congestion, flows=a.flows,
        sent=sent, unsettled=late, arrive=stat(arrive), settle=stat(settle), bytes_per_message=round((up_o + down_o) / sent, 1),
        frames_up=round(up_f / sent, 3), frames_down=round(down_f / sent, 3), bytes_up=round(up_o / sent, 1),
        rtt_mean_ms=round(sum(i["rtt_us"] for i in info) / len(info) / 1e3, 2),
        rttvar_mean_ms=round(sum(i["rttvar_us"] for i in info) / len(info) / 1e3, 2), **sums,
        cpu=round((time.process_time() - cpu) / (now() - t0), 3), seed=a.seed)), flush=True)


main()
