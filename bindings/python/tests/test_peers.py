"""Clients that are peers: they exchange messages while the broker is stopped, and join the message space while it runs."""

from __future__ import annotations

import contextlib
import itertools

import pytest

import thalweg
from conftest import Broker, eventually, free_ports

AT_MOST_ONCE = thalweg.Reliability.AT_MOST_ONCE


RUNS = itertools.count()


def publish_until_heard(publisher: thalweg.Client, topic: str, heard: thalweg.Subscription) -> None:
    """A subscription reaches the other end some time after it was answered."""
    own = f"?{next(RUNS)}"
    for _ in range(300):
        publisher.publish(topic, own, reliability=AT_MOST_ONCE)
        with contextlib.suppress(thalweg.TimedOut):
            # What was published earlier may come by a longer way.
            while heard.next(timeout=0.1).payload != own.encode():
                pass
            return
    pytest.fail(f"nothing came at {topic}")


def take(heard: thalweg.Subscription, count: int) -> list[bytes]:
    """The next so many messages that are not of `publish_until_heard`."""
    came: list[bytes] = []
    while len(came) < count:
        payload = heard.next(timeout=30).payload
        if not payload.startswith(b"?"):
            came.append(payload)
    return came


def each_comes_once(publisher: thalweg.Client, topic: str, *all_heard: thalweg.Subscription) -> None:
    sent = [str(number).encode() for number in range(100)]
    for payload in sent:
        publisher.publish(topic, payload, reliability=AT_MOST_ONCE)
    for heard in all_heard:
        assert take(heard, len(sent)) == sent
        with pytest.raises(thalweg.TimedOut):
            while True:
                assert heard.next(timeout=0.3).payload.startswith(b"?")


def test_peers_meet_without_a_broker_and_join_it_when_it_comes(tmp_path):
    first_at, second_at, zmtp, *ports = free_ports(8)
    names = ["mqtt", "coap", "amqp", "stomp", "admin"]
    more = (f"listeners.zmtp.bind=127.0.0.1:{zmtp}",)
    broker = Broker(dict(zip(names, ports)), tmp_path / "data", more=more)
    url = f"zmtp://127.0.0.1:{zmtp}"
    at = [f"127.0.0.1:{port}" for port in (first_at, second_at)]
    with (
        thalweg.connect(url, peer_bind=at[0], peers=[at[1]]) as first,
        thalweg.connect(url, peer_bind=at[1], peers=[f"tcp://{at[0]}"]) as second,
    ):
        heard = [client.subscribe("plant/#", reliability=AT_MOST_ONCE) for client in (first, second)]
        publish_until_heard(first, "plant/a", heard[1])
        publish_until_heard(second, "plant/a", heard[0])
        each_comes_once(first, "plant/a", *heard)
        for _ in range(2):
            assert eventually(lambda: first.status()["peers"] == {"subscribers": 1, "publishers": 1})
            broker.start()
            with thalweg.connect(broker.url("mqtt")) as device:
                by_mqtt = device.subscribe("plant/#", reliability=AT_MOST_ONCE)
                publish_until_heard(first, "plant/a", by_mqtt)
                publish_until_heard(second, "plant/a", by_mqtt)
                for subscription in heard:
                    publish_until_heard(device, "plant/a", subscription)
                assert first.status()["peers"] == {"subscribers": 2, "publishers": 2}
                for publisher in (first, second, device):
                    each_comes_once(publisher, "plant/b", *heard, by_mqtt)
            broker.stop()
            each_comes_once(second, "plant/alone", *heard)


def test_a_peer_that_only_receives_binds_nothing_of_its_own():
    [port] = free_ports(1)
    with (
        thalweg.connect(peer_bind=f"127.0.0.1:{port}") as publisher,
        thalweg.connect(peers=[f"127.0.0.1:{port}"]) as receiver,
    ):
        heard = receiver.subscribe("a", reliability=AT_MOST_ONCE)
        publish_until_heard(publisher, "a", heard)


def test_what_a_peer_cannot_do_is_said():
    [port] = free_ports(1)
    with pytest.raises(TypeError, match="peers is a list"):
        thalweg.connect(peers="127.0.0.1:5560")
    with pytest.raises(thalweg.ThalwegError, match="by ZeroMQ"):
        thalweg.connect("mqtt://127.0.0.1", peer_bind=f"127.0.0.1:{port}")
    with thalweg.connect(peer_bind=f"127.0.0.1:{port}") as client:
        with pytest.raises(thalweg.ThalwegError, match="cannot listen"):
            thalweg.connect(peer_bind=f"127.0.0.1:{port}")
        ticket = client.publish_message("x", "", "a")
        assert client.outcome(ticket, timeout=30) == thalweg.Success.FAILED
