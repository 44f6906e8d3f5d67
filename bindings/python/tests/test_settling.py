"""Messages that the application settles itself: what was not settled comes again, over every protocol that can promise it."""

from __future__ import annotations

import asyncio

import pytest
import thalweg
from conftest import eventually
from thalweg import Reliability, aio

SECONDS = 30.0


def payloads(subscription, count: int) -> list[int]:
    return [int(subscription.next(timeout=SECONDS).payload) for _ in range(count)]


def worker(broker, protocol: str):
    return thalweg.connect(broker.url(protocol), client_id="worker", session=600)


@pytest.mark.parametrize("protocol", ["mqtt", "amqp", "stomp"])
@pytest.mark.parametrize("reliability", [Reliability.AT_LEAST_ONCE, Reliability.EXACTLY_ONCE])
def test_what_was_not_settled_before_close_comes_again(broker, protocol, reliability):
    with thalweg.connect(broker.url("mqtt")) as publisher:
        with worker(broker, protocol) as client:
            jobs = client.subscribe("jobs", reliability=reliability, settle_by_hand=True, timeout=SECONDS)
            for number in range(10):
                assert publisher.publish("jobs", str(number), timeout=SECONDS)
            assert payloads(jobs, 10) == list(range(10))
            for _ in range(4):
                jobs.settle()
            # It says goodbye, and the rest is unsettled.
            assert client.close(SECONDS)
        with worker(broker, protocol) as client:
            jobs = client.subscribe("jobs", reliability=reliability, settle_by_hand=True, timeout=SECONDS)
            assert payloads(jobs, 6) == list(range(4, 10))
            for _ in range(6):
                jobs.settle()
            # Settled ones are gone: the next to come is new.
            assert publisher.publish("jobs", "10", timeout=SECONDS)
            assert payloads(jobs, 1) == [10]
            jobs.settle()


@pytest.mark.parametrize("protocol", ["mqtt", "amqp", "stomp"])
def test_what_was_not_settled_survives_the_broker_too(broker, protocol):
    with worker(broker, protocol) as client, thalweg.connect(broker.url("mqtt")) as publisher:
        jobs = client.subscribe("jobs", settle_by_hand=True, timeout=SECONDS)
        for number in range(3):
            assert publisher.publish("jobs", str(number), timeout=SECONDS)
        assert payloads(jobs, 3) == [0, 1, 2]
        broker.stop(kill=True)
        client.close(0)
    broker.start()
    with worker(broker, protocol) as client:
        jobs = client.subscribe("jobs", settle_by_hand=True, timeout=SECONDS)
        assert payloads(jobs, 3) == [0, 1, 2]


@pytest.mark.parametrize("protocol", ["mqtt", "amqp", "stomp"])
def test_what_one_worker_gives_back_the_next_gets(broker, protocol):
    with thalweg.connect(broker.url("amqp")) as publisher, thalweg.connect(broker.url(protocol)) as second:
        with thalweg.connect(broker.url(protocol)) as first:
            jobs = first.subscribe("$share/crew/jobs", settle_by_hand=True, timeout=SECONDS)
            assert publisher.publish("jobs", "1", timeout=SECONDS)
            assert payloads(jobs, 1) == [1]
            others = second.subscribe("$share/crew/jobs", settle_by_hand=True, timeout=SECONDS)
        assert payloads(others, 1) == [1]
        others.settle()


def test_coap_settles_what_comes_and_is_refused(broker):
    with thalweg.connect(broker.url("coap")) as client:
        with pytest.raises(thalweg.Refused, match="messages that the application settles"):
            client.subscribe("jobs", settle_by_hand=True, timeout=SECONDS)
    # Beside another it is left to that.
    with thalweg.connect(broker.url("coap"), broker.url("mqtt")) as client:
        jobs = client.subscribe("jobs", settle_by_hand=True, timeout=SECONDS)
        lanes = {lane["protocol"]: lane["subscriptions"] for lane in client.status()["lanes"]}
        assert lanes == {"coap": 0, "mqtt": 1}
        jobs.unsubscribe()


def test_at_most_once_is_refused(broker):
    with thalweg.connect(broker.url("mqtt")) as client:
        with pytest.raises(thalweg.ThalwegError, match="at most once cannot be settled by hand"):
            client.subscribe("a", reliability=Reliability.AT_MOST_ONCE, settle_by_hand=True)


def test_who_never_settles_gets_no_more_than_the_window_and_goes_on_when_it_does(broker):
    window, more = 1024, 50
    with worker(broker, "mqtt") as client, thalweg.connect(broker.url("mqtt")) as publisher:
        jobs = client.subscribe("jobs", settle_by_hand=True, timeout=SECONDS)
        for number in range(window + more):
            publisher.publish_message(str(number), "", "jobs")
        assert publisher.flush(SECONDS)
        assert payloads(jobs, window) == list(range(window))
        # The connection lives on, though nothing more comes over it.
        assert client.publish("other", "x", timeout=SECONDS)
        for _ in range(window):
            jobs.settle()
        assert payloads(jobs, more) == list(range(window, window + more))


def test_the_same_in_a_loop(broker):
    async def main() -> None:
        url, who = broker.url("mqtt"), {"client_id": "worker", "session": 600}
        async with aio.connect(url, **who) as client:
            jobs = await client.subscribe("jobs", settle_by_hand=True, timeout=SECONDS)
            assert jobs.granted is Reliability.AT_LEAST_ONCE and jobs.ended is None
            await client.publish("jobs", "1", timeout=SECONDS)
            await client.publish("jobs", "2", timeout=SECONDS)
            assert [(await jobs.next(SECONDS)).payload for _ in range(2)] == [b"1", b"2"]
            jobs.settle()
        async with aio.connect(url, **who) as client:
            jobs = await client.subscribe("jobs", settle_by_hand=True, timeout=SECONDS)
            again = await jobs.next(SECONDS)
            assert (again.payload, again.repeated) == (b"2", True)

    asyncio.run(main())


def test_settling_without_the_option_does_nothing(broker):
    with thalweg.connect(broker.url("mqtt")) as client:
        messages = client.subscribe("a", timeout=SECONDS)
        messages.settle()
        assert client.publish("a", "1", timeout=SECONDS)
        assert payloads(messages, 1) == [1]
        messages.settle()
        assert eventually(lambda: client.status()["counts"]["received"] == 1)
