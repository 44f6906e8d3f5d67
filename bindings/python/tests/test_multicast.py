"""Subscriptions that a multicast group of the broker serves, on the loopback interface."""

from __future__ import annotations

import asyncio
import logging
from queue import Queue

import pytest
import thalweg
from conftest import eventually, free_ports
from thalweg import Multicast, Reliability, aio

SECONDS = 30.0
LOOPBACK = ("127.0.0.1",)


@pytest.fixture
def sending(broker):
    """The broker with a group."""
    broker.stop()
    [port] = free_ports(1)
    group = f'{{ name = "poses", group = "239.255.10.3:{port}", interfaces = ["lo"], filters = ["plant/+/pose"] }}'
    broker.more = (f"multicast=[{group}]",)
    broker.start()
    return broker


@pytest.mark.parametrize("protocol", ["mqtt", "stomp"])
@pytest.mark.parametrize("reliability", [Reliability.AT_MOST_ONCE, Reliability.AT_LEAST_ONCE])
def test_a_group_serves_a_subscription(sending, protocol, reliability):
    with thalweg.connect(sending.url(protocol), multicast_interfaces=LOOPBACK) as client, thalweg.connect(sending.url("mqtt")) as ours:
        subscription = client.subscribe_by_multicast("poses", "plant/7/pose", reliability=reliability, timeout=SECONDS)
        assert subscription.granted is reliability
        for number in range(50):
            for plant in (7, 8):
                ours.publish_message(str(number), "", f"plant/{plant}/pose")
        came = [int(subscription.next(SECONDS).payload) for _ in range(50)]
        assert came == list(range(50))
        status = client.status()
        [group] = status["groups"]
        assert (group["group"], group["is_heard"], group["why_not"]) == ("poses", True, "")
        assert group["counts"]["datagrams"] > 0 and group["counts"]["lost"] == 0
        # The group's description alone came by the connection.
        assert status["counts"]["received"] == 1


def test_it_is_an_ordinary_subscription_where_the_group_is_not_joined_and_says_why(sending, caplog):
    caplog.set_level(logging.DEBUG, logger="thalweg")
    told: Queue = Queue()
    with thalweg.connect(sending.url("mqtt"), on_multicast=told.put) as client:
        assert client.publish("plant/7/pose", "before", retain=thalweg.Retain.SET, timeout=SECONDS)
        with_last, without = (
            client.subscribe_by_multicast("poses", "plant/7/pose", last_values=wanted, timeout=SECONDS) for wanted in (True, False)
        )
        assert with_last.next(SECONDS).payload == b"before"
        assert client.publish("plant/7/pose", "after", timeout=SECONDS)
        assert with_last.next(SECONDS).payload == b"after"
        assert without.next(SECONDS).payload == b"after"
        assert all("no interface is set" in group["why_not"] for group in client.status()["groups"])
        assert eventually(lambda: "no interface is set" in caplog.text)
        for _ in range(2):
            event = told.get(timeout=SECONDS)
            assert (event.group, event.topic_filter) == ("poses", "plant/7/pose") and "no interface is set" in event.why_not


def test_a_group_that_falls_silent_is_told_once_it_is_left(sending):
    told: Queue = Queue()
    with thalweg.connect(sending.url("mqtt"), multicast_interfaces=LOOPBACK, backoff=(0.01, 0.05), on_multicast=told.put) as client:
        subscription = client.subscribe_by_multicast("poses", "plant/7/pose", timeout=SECONDS)
        assert told.get(timeout=SECONDS) == Multicast("poses", "plant/7/pose", "")
        sending.stop()
        sending.more = ()
        sending.start()
        event = told.get(timeout=SECONDS)
        assert (event.group, event.topic_filter) == ("poses", "plant/7/pose") and event.why_not
        assert client.publish("plant/7/pose", "by the connection", timeout=SECONDS)
        assert subscription.next(SECONDS).payload == b"by the connection"


def test_a_group_that_does_not_carry_the_filter_is_not_taken(sending):
    with thalweg.connect(sending.url("mqtt"), multicast_interfaces=LOOPBACK) as client:
        subscription = client.subscribe_by_multicast("poses", "plant/#", timeout=SECONDS)
        [group] = client.status()["groups"]
        assert not group["is_heard"] and "does not carry all that the filter asks for" in group["why_not"]
        assert client.publish("plant/7/state", "x", timeout=SECONDS)
        assert subscription.next(SECONDS).payload == b"x"


def test_an_event_loop_has_the_same(sending):
    async def main() -> None:
        async with aio.connect(sending.url("mqtt"), multicast_interfaces=LOOPBACK) as client:
            subscription = await client.subscribe_by_multicast("poses", "plant/+/pose", timeout=SECONDS)
            assert await client.publish("plant/7/pose", "x", timeout=SECONDS)
            assert (await subscription.next(SECONDS)).payload == b"x"
            assert client.status()["groups"][0]["is_heard"]

    asyncio.run(main())


def test_nonsense_is_refused(broker):
    with pytest.raises(TypeError, match="multicast_interfaces is a list"):
        thalweg.connect(broker.url("mqtt"), multicast_interfaces="127.0.0.1")
    with pytest.raises(ValueError, match="no IP address"):
        thalweg.connect(broker.url("mqtt"), multicast_interfaces=["eth0"])
    with thalweg.connect(broker.url("mqtt")) as client, pytest.raises(thalweg.ThalwegError):
        client.subscribe_by_multicast("", "a", timeout=SECONDS)
