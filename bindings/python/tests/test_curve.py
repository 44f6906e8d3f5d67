"""CURVE: keys as pyzmq makes them, towards the broker and towards a socket of libzmq."""

from __future__ import annotations

import time

import pytest
import zmq

import thalweg
from conftest import Broker, free_ports

AT_MOST_ONCE = thalweg.Reliability.AT_MOST_ONCE


@pytest.fixture
def keys() -> dict:
    return {name: zmq.curve_keypair() for name in ("server", "client")}


@pytest.fixture
def context():
    made = zmq.Context()
    yield made
    made.destroy(0)


def secured(made: zmq.Socket, server: bytes, own: tuple[bytes, bytes]) -> zmq.Socket:
    made.curve_serverkey = server
    made.curve_publickey, made.curve_secretkey = own
    made.rcvtimeo = 100
    return made


def publish_until(publish, is_heard) -> None:
    for number in range(300):
        publish(str(number))
        if is_heard():
            return
    pytest.fail("nothing came")


def hears(heard: thalweg.Subscription) -> bool:
    try:
        heard.next(timeout=0.1)
        return True
    except thalweg.TimedOut:
        return False


def test_a_client_with_keys_meets_pyzmq_at_the_broker(tmp_path, keys, context):
    zmtp, *ports = free_ports(6)
    (server, server_secret), own = keys["server"], keys["client"]
    (tmp_path / "clients").write_bytes(own[0] + b" meter\n")
    (tmp_path / "server.key").write_bytes(server_secret)
    more = ["bind=127.0.0.1:" + str(zmtp), "anonymous=false"]
    more += [f"curve.secret_key_file={tmp_path / 'server.key'}", f"curve.clients_file={tmp_path / 'clients'}"]
    names = ["mqtt", "coap", "amqp", "stomp", "admin"]
    broker = Broker(dict(zip(names, ports)), tmp_path / "data", more=tuple(f"listeners.zmtp.{it}" for it in more))
    broker.start()
    try:
        subscriber = secured(context.socket(zmq.SUB), server, own)
        subscriber.connect(f"tcp://127.0.0.1:{zmtp}")
        subscriber.subscribe(b"plant/")
        publisher = secured(context.socket(zmq.PUB), server, own)
        publisher.connect(f"tcp://127.0.0.1:{zmtp}")
        with thalweg.connect(f"zmtp://127.0.0.1:{zmtp}", curve_server=server, curve_secret=own[1].decode()) as client:
            heard = client.subscribe("plant/#", reliability=AT_MOST_ONCE)
            publish_until(lambda text: publisher.send_multipart([b"plant/a", text.encode()]), lambda: hears(heard))
            publish_until(
                lambda text: client.publish("plant/b", text, reliability=AT_MOST_ONCE),
                lambda: subscriber.poll(100) and subscriber.recv_multipart()[0] == b"plant/b",
            )
        # A key that the broker does not know.
        with thalweg.connect(f"zmtp://127.0.0.1:{zmtp}", curve_server=server, curve_secret=zmq.curve_keypair()[1]) as stranger:
            until = time.monotonic() + 30
            while not any("not authorized" in lane["trouble"] for lane in stranger.status()["lanes"]):
                assert time.monotonic() < until, stranger.status()
                time.sleep(0.05)
            stranger.close(0)
    finally:
        broker.stop()


def test_a_client_with_keys_hears_a_socket_of_libzmq_that_binds(keys, context):
    server, own = keys["server"], keys["client"]
    bound = context.socket(zmq.XPUB)
    bound.curve_server = 1
    bound.curve_publickey, bound.curve_secretkey = server
    port = bound.bind_to_random_port("tcp://127.0.0.1")
    with thalweg.connect(f"zmtp://127.0.0.1:{port}", curve_server=server[0], curve_secret=own[1]) as client:
        heard = client.subscribe("a/#", reliability=AT_MOST_ONCE)
        publish_until(lambda text: bound.send_multipart([b"a/1", text.encode()]), lambda: hears(heard))


def test_what_is_no_key_is_refused():
    key = zmq.curve_keypair()[0].decode()
    with pytest.raises(ValueError, match="40 characters"):
        thalweg.connect("zmtp://127.0.0.1", curve_server=key, curve_secret="short")
    with pytest.raises(TypeError, match="go together"):
        thalweg.connect("zmtp://127.0.0.1", curve_server=key)
