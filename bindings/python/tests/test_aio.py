"""What a program with an event loop does with the client."""

from __future__ import annotations

import asyncio

import pytest
import thalweg
from thalweg import Success, aio

SECONDS = 30.0


def test_publish_and_receive(broker):
    async def main() -> None:
        async with aio.connect(broker.url("mqtt")) as client:
            subscription = await client.subscribe("a/#", timeout=SECONDS)
            assert await client.publish("a/b", "hello", timeout=SECONDS) is Success.ACKNOWLEDGED
            async for message in subscription:
                assert (message.topic, message.payload) == ("a/b", b"hello")
                break

    asyncio.run(main())


def test_many_things_at_once(broker):
    async def main() -> None:
        async with aio.connect(*broker.urls) as client:
            subscription = await client.subscribe("a/+", timeout=SECONDS)
            outcomes = await asyncio.gather(*(client.publish(f"a/{n}", str(n), timeout=SECONDS) for n in range(200)))
            assert all(outcomes)
            came = {(await subscription.next(SECONDS)).payload for _ in range(200)}
            assert came == {str(n).encode() for n in range(200)}

    asyncio.run(main())


def test_the_loop_goes_on_meanwhile(broker):
    async def main() -> None:
        async with aio.connect(broker.url("mqtt")) as client:
            subscription = await client.subscribe("never", timeout=SECONDS)
            waiting = asyncio.ensure_future(subscription.next())
            for _ in range(10):
                await asyncio.sleep(0)
            assert not waiting.done()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            # Who was cancelled has taken nothing.
            await client.publish("never", b"x", timeout=SECONDS)
            assert (await subscription.next(SECONDS)).payload == b"x"

    asyncio.run(main())


def test_a_time_limit_is_kept(broker):
    async def main() -> None:
        async with aio.connect(broker.url("mqtt")) as client:
            subscription = await client.subscribe("never", timeout=SECONDS)
            with pytest.raises(thalweg.TimedOut):
                await subscription.next(0.05)

    asyncio.run(main())


def test_every_loop_has_its_bell(broker):
    for _ in range(3):
        test_publish_and_receive(broker)
