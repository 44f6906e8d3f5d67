#!/usr/bin/env python3
"""Prints what libzmq sends, step by step: python3 -m venv v && v/bin/pip install pyzmq && v/bin/python record.py

The transcripts of this crate were taken from its output with pyzmq 27.3.0, which brings libzmq 4.3.5.
"""
import socket
import zmq
from zmq.auth.thread import ThreadAuthenticator


def greeting(minor, mechanism, as_server=0):
    return b"\xff" + bytes(8) + b"\x7f\x03" + bytes([minor]) + mechanism.ljust(20, b"\0") + bytes([as_server]) + bytes(31)


def command(name, data=b""):
    body = bytes([len(name)]) + name + data
    return b"\x04" + bytes([len(body)]) + body


def metadata(socket_type):
    return b"\x0bSocket-Type" + len(socket_type).to_bytes(4, "big") + socket_type


def received(peer, seconds=0.3):
    peer.settimeout(seconds)
    data = b""
    try:
        while part := peer.recv(65536):
            data += part
        data += b"<closed>"
    except (TimeoutError, ConnectionError):
        pass
    return data


def show(label, data):
    print(f"  {label}: {data.hex(' ')}\n      {data!r}")


def libzmq_connects(title, kind, ours, answers, prepare=lambda s: None, act=()):
    """A socket of libzmq connects to a server that sends `ours` octet by octet as far as it matters, then `answers`."""
    print(title)
    listener = socket.create_server(("127.0.0.1", 0))
    with zmq.Context() as context, context.socket(kind) as sock:
        sock.linger = 0
        prepare(sock)
        sock.connect("tcp://127.0.0.1:%d" % listener.getsockname()[1])
        peer, _ = listener.accept()
        show("at once", received(peer))
        for until in (10, 11, 64):
            peer.sendall(ours[:until][-{10: 10, 11: 1, 64: 53}[until]:])
            show(f"after {until} octets", received(peer))
        for answer in answers:
            peer.sendall(answer)
            show(f"after {answer[:12]!r}", received(peer))
        for step in act:
            step(sock)
            show("after a step", received(peer))
        peer.close()
    listener.close()


def libzmq_binds(title, kind, sent, prepare=lambda s: None, users=None):
    """A socket of libzmq binds; a client sends each of `sent`, or does it to the socket."""
    print(title)
    with zmq.Context() as context:
        authenticator = ThreadAuthenticator(context)
        if users:
            authenticator.start()
            authenticator.configure_plain("*", users)
        with context.socket(kind) as sock:
            sock.linger = 0
            prepare(sock)
            peer = socket.create_connection(("127.0.0.1", sock.bind_to_random_port("tcp://127.0.0.1")))
            show("at once", received(peer))
            for step in sent:
                peer.sendall(step) if isinstance(step, bytes) else step(sock)
                show(f"after {step[:12] if isinstance(step, bytes) else 'a step'!r}", received(peer))
            peer.close()
        if users:
            authenticator.stop()


def plain(sock):
    sock.plain_username, sock.plain_password = b"ada", b"secret"


def beats(sock):
    sock.heartbeat_ivl, sock.heartbeat_ttl = 200, 5000


READY_XPUB = command(b"READY", metadata(b"XPUB"))
READY_ROUTER = command(b"READY", metadata(b"ROUTER"))
SUBSCRIBE = [lambda s: s.subscribe(b""), lambda s: s.subscribe(b"plant/"), lambda s: s.unsubscribe(b"plant/")]
XSUB = [lambda s: s.send(b"\x01plant/"), lambda s: s.send(b"\x00plant/"), lambda s: s.send(b"hello")]
DEALER = [lambda s: s.send_multipart([b"a", b"", b"payload"]), lambda s: s.send(b"y" * 256)]

libzmq_connects("SUB, 3.1", zmq.SUB, greeting(1, b"NULL"), [READY_XPUB], act=SUBSCRIBE)
libzmq_connects("SUB, 3.0", zmq.SUB, greeting(0, b"NULL"), [READY_XPUB], act=SUBSCRIBE)
libzmq_connects("XSUB, 3.1", zmq.XSUB, greeting(1, b"NULL"), [READY_XPUB], act=XSUB)
libzmq_connects(
    "DEALER", zmq.DEALER, greeting(1, b"NULL"), [READY_ROUTER, command(b"PING", b"\x00\x64abcd")],
    lambda s: s.setsockopt(zmq.ROUTING_ID, b"dev-1"), DEALER,
)
libzmq_connects("PUSH that sends PING", zmq.PUSH, greeting(1, b"NULL"), [command(b"READY", metadata(b"PULL"))], beats)
libzmq_connects("PLAIN", zmq.SUB, greeting(1, b"PLAIN", 1), [command(b"WELCOME"), READY_XPUB], plain, SUBSCRIBE[:1])
libzmq_binds(
    "PUB", zmq.PUB,
    [greeting(1, b"NULL"), command(b"READY", metadata(b"SUB")), command(b"SUBSCRIBE"), lambda s: s.send_multipart([b"a", b"b"])],
)
libzmq_binds("a peer of 2.0", zmq.PUB, [greeting(1, b"NULL")[:10] + b"\x01", b"\x02\x00\x00"])
HELLO = [greeting(1, b"PLAIN"), command(b"HELLO", b"\x03ada\x06secret"), command(b"INITIATE", metadata(b"PUSH"))]
WRONG = [greeting(1, b"PLAIN"), command(b"HELLO", b"\x03ada\x05wrong")]
server = lambda s: setattr(s, "plain_server", True)
libzmq_binds("PLAIN server", zmq.PULL, HELLO, server, {"ada": "secret"})
libzmq_binds("PLAIN server that refuses", zmq.PULL, WRONG, server, {"ada": "secret"})
