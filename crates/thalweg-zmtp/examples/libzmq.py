#!/usr/bin/env python3
"""libzmq's ends of the connections of libzmq.rs, in both roles and by every mechanism; fails if anything is not as it should be.

cargo build -p thalweg-zmtp --example libzmq; python3 -m venv v; v/bin/pip install pyzmq
v/bin/python crates/thalweg-zmtp/examples/libzmq.py target/debug/examples/libzmq
"""
import socket
import subprocess
import sys
import threading
import time
import zmq
from zmq.auth.thread import ThreadAuthenticator
from zmq.utils import z85

PROGRAM = sys.argv[1]
# The public keys of the secret keys 01 01 … and 03 03 …, and a client's pair of its own.
SERVER_SECRET, CLIENT_SECRET = z85.encode(b"\x01" * 32), z85.encode(b"\x03" * 32)
SERVER, CLIENT = zmq.curve_public(SERVER_SECRET), zmq.curve_public(CLIENT_SECRET)


class Ours:
    """The program, and what it has printed."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen([PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE, text=True)
        self.lines = []
        threading.Thread(target=lambda: self.lines.extend(iter(self.process.stdout.readline, "")), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def says(self, text, seconds=5):
        until = time.time() + seconds
        while not any(text in line for line in list(self.lines)):
            assert time.time() < until, f"{text!r} is not in {self.lines}"
            time.sleep(0.02)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def as_client(sock, mechanism):
    sock.linger, sock.rcvtimeo, sock.sndtimeo = 0, 5000, 5000
    if mechanism == "PLAIN":
        sock.plain_username, sock.plain_password = b"ada", b"secret"
    if mechanism == "CURVE":
        sock.curve_serverkey, sock.curve_publickey, sock.curve_secretkey = SERVER, CLIENT, CLIENT_SECRET


def as_server(sock, mechanism):
    sock.linger, sock.rcvtimeo, sock.sndtimeo = 0, 5000, 5000
    if mechanism == "PLAIN":
        sock.plain_server = True
    if mechanism == "CURVE":
        sock.curve_server, sock.curve_secretkey, sock.curve_publickey = True, SERVER_SECRET, SERVER


def libzmq_connects(context, mechanism):
    port = free_port()
    with Ours("listen", port) as ours:
        time.sleep(0.3)

        def connected(kind, prepare=lambda s: None):
            sock = context.socket(kind)
            as_client(sock, mechanism)
            prepare(sock)
            sock.connect(f"tcp://127.0.0.1:{port}")
            return sock

        for prefix in (b"", b"plant/", b"p" * 300):
            sub = connected(zmq.SUB)
            sub.subscribe(prefix)
            assert sub.recv_multipart() == [prefix, b"hello"]
            assert sub.recv_multipart() == [prefix + b"x" * 70000]
            sub.unsubscribe(prefix)
            ours.says('Cancel([')
            sub.close()
        xsub = connected(zmq.XSUB)
        xsub.send(b"\x01q")
        assert xsub.recv_multipart() == [b"q", b"hello"]
        push = connected(zmq.PUSH)
        push.send_multipart([b"a", b"", b"z" * 70000])
        ours.says("Message[1, 0, 70000]")
        dealer = connected(zmq.DEALER, lambda s: s.setsockopt(zmq.ROUTING_ID, b"dev-1"))
        for size in (0, 1, 255, 256, 100_000):
            dealer.send_multipart([b"", b"w" * size])
            assert dealer.recv_multipart() == [b"", b"w" * size]
        ours.says('"Identity": "dev-1"')
        req = connected(zmq.REQ)
        req.send(b"question")
        assert req.recv() == b"question"
        beating = connected(zmq.PUSH, lambda s: (setattr(s, "heartbeat_ivl", 100), setattr(s, "heartbeat_ttl", 3000)))
        ours.says("Ping { ttl: 30")
        time.sleep(0.5)
        beating.send(b"b" * 17)
        ours.says("Message[17]")
        for sock in (xsub, push, dealer, req, beating):
            sock.close()
        if mechanism == "CURVE":
            ours.says(f"curve_key: Some({list(z85.decode(CLIENT))}")
        if mechanism == "PLAIN":
            wrong = context.socket(zmq.DEALER)
            as_client(wrong, "PLAIN")
            wrong.plain_password = b"wrong"
            # Not ..._AUTH: a PLAIN client of libzmq knows ERROR only as libzmq misspells it.
            monitor = wrong.get_monitor_socket(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_AUTH)
            wrong.connect(f"tcp://127.0.0.1:{port}")
            assert monitor.poll(5000), "libzmq has not noticed that the password is wrong"
            wrong.disable_monitor()
            wrong.close()


def libzmq_binds(context, mechanism):
    def bound(kind):
        sock = context.socket(kind)
        as_server(sock, mechanism)
        return sock, sock.bind_to_random_port("tcp://127.0.0.1")

    pub, port = bound(zmq.XPUB)
    with Ours("dial", port, "SUB", mechanism) as ours:
        assert pub.recv() == b"\x01a"
        pub.send_multipart([b"a/b", b"payload"])
        pub.send(b"not for us")
        pub.send(b"a" * 70000)
        ours.says("Message[3, 7]")
        ours.says("Message[70000]")
        assert len([line for line in ours.lines if "Message" in line]) == 2
    pull, port = bound(zmq.PULL)
    with Ours("dial", port, "PUSH", mechanism) as ours:
        assert pull.recv_multipart() == [b"a", b"y" * 300]
        ours.says("Pong")
    router, port = bound(zmq.ROUTER)
    with Ours("dial", port, "DEALER", mechanism) as ours:
        identity, *frames = router.recv_multipart()
        assert frames == [b"a", b"y" * 300]
        router.send_multipart([identity, b"answer", b"c" * 256])
        ours.says("Message[6, 256]")
    if mechanism == "PLAIN":
        with Ours("dial", port, "DEALER", "WRONG") as ours:
            ours.says("Error([52, 48, 48])")
    for sock in (pub, pull, router):
        sock.close()


with zmq.Context() as context:
    authenticator = ThreadAuthenticator(context)
    authenticator.start()
    authenticator.configure_plain("*", {"ada": "secret"})
    authenticator.configure_curve(domain="*", location=zmq.auth.CURVE_ALLOW_ANY)
    for mechanism in ("NULL", "PLAIN", "CURVE"):
        libzmq_connects(context, mechanism)
        print(mechanism, "libzmq connects: ok")
        libzmq_binds(context, mechanism)
        print(mechanism, "libzmq binds: ok")
    authenticator.stop()
print("libzmq", zmq.zmq_version(), "pyzmq", zmq.__version__)
