"""The client for asyncio: the same names as in :mod:`thalweg`, to be awaited.

::

    async with thalweg.aio.connect("mqtt://gateway", "coap://gateway") as client:
        await client.publish("plant/1/temperature", b"21.5")
        async for message in await client.subscribe("plant/#"):
            print(message.topic, message.payload)
"""

from __future__ import annotations

import asyncio
import itertools
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any, AsyncIterator, Optional, Type

from . import _thalweg
from ._events import Callbacks
from ._settings import How, Payload, Settings, options, payload_bytes, settings
from ._words import Message, Presence, Reliability, Success

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Client", "PresenceSubscription", "Subscription", "connect"]


def connect(*brokers: str, **given: Unpack[Settings]) -> Client:
    """A client of these brokers; parameters as in :func:`thalweg.connect`. To be called inside a running loop, which calls the
    callbacks: they are plain functions, and must not block. Callbacks that raise are logged."""
    return Client(*brokers, **given)


class _Bell:
    """Tells one loop what has happened in the client's own thread: a pipe, so that this thread never needs Python's lock."""

    _of_loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Bell] = weakref.WeakKeyDictionary()

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> _Bell:
        bell = cls._of_loops.get(loop)
        if bell is None:
            bell = cls._of_loops[loop] = cls(loop)
        return bell

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._native = _thalweg.Bell()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[None]] = {}
        # The loop must not be kept alive by what is kept per loop.
        itself = weakref.ref(self)

        def ring() -> None:
            bell = itself()
            if bell is not None:
                bell._ring()

        loop.add_reader(self._native.fileno(), ring)

    def _ring(self) -> None:
        for number in self._native.take():
            future = self._waiting.get(number)
            if future is not None and not future.done():
                future.set_result(None)

    async def wait(self, pending: Any) -> Any:
        number = next(self._numbers)
        loop = asyncio.get_running_loop()
        try:
            while True:
                rung = self._waiting[number] = loop.create_future()
                is_done, value = pending.poll(self._native, number)
                if is_done:
                    return value
                await rung
        finally:
            del self._waiting[number]
            pending.cancel()


async def _wait(pending: Any, timeout: Optional[float] = None) -> Any:
    waiting = _Bell.of(asyncio.get_running_loop()).wait(pending)
    if timeout is None:
        return await waiting
    try:
        return await asyncio.wait_for(waiting, timeout)
    except asyncio.TimeoutError:
        raise _thalweg.TimedOut(f"nothing after {timeout} s") from None


class Client:
    """A connection to brokers by whatever protocol; see :func:`thalweg.connect` for its parameters."""

    def __init__(self, *brokers: str, **given: Unpack[Settings]) -> None:
        checked = settings(given)
        self._callbacks = Callbacks(checked)
        self._native = _thalweg.Client(list(brokers), checked)
        self._events: Optional[asyncio.Task[None]] = None
        self._follow()

    def _follow(self) -> None:
        """Calls callbacks in the loop, if one runs."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        if self._events is None:
            self._events = loop.create_task(_follow(self._callbacks))

    def publish_message(self, message: Payload, destination: str, topic: str, **how: Unpack[How]) -> int:
        """Hands a message over and returns its ticket. Never waits, so there is nothing to await."""
        return self._native.publish_message(payload_bytes(message), destination, topic, options(**how))

    def is_publish_success(self, ticket: int) -> Success:
        """What is known of a message now."""
        return Success(self._native.is_publish_success(ticket))

    async def outcome(self, ticket: int, *, timeout: Optional[float] = None) -> Success:
        """Waits until something has become of a message."""
        return Success(await _wait(self._native.outcome(ticket), timeout))

    def why_failed(self, ticket: int) -> Optional[str]:
        """Why a message failed, in the broker's words where it had some. The last 1,024 are remembered."""
        return self._native.why_failed(ticket)

    def is_stored(self, ticket: int) -> bool:
        """Whether a message would survive the end of this process: with ``buffer_folder``, whether it is there."""
        return self._native.is_stored(ticket)

    async def stored(self, ticket: int, *, timeout: Optional[float] = None) -> None:
        """Waits for :meth:`is_stored`: after that a gateway may forget its own copy.

        :raises ThalwegError: it is not on disk and will not be; the words say why.
        """
        await _wait(self._native.stored(ticket), timeout)

    async def publish(self, topic: str, payload: Payload, *, timeout: Optional[float] = None, **how: Unpack[How]) -> Success:
        """Publishes and waits for room and for the outcome."""
        return Success(await _wait(self._native.publish(topic, payload_bytes(payload), options(**how)), timeout))

    async def subscribe(
        self,
        topic_filter: str,
        *,
        reliability: Reliability = Reliability.AT_LEAST_ONCE,
        last_values: bool = True,
        keeps_all: bool = True,
        settle_by_hand: bool = False,
        timeout: Optional[float] = None,
    ) -> Subscription:
        """Wants what is published at the addresses of a filter; returns when a broker has agreed."""
        pending = self._native.subscribe(topic_filter, None, int(Reliability(reliability)), last_values, keeps_all, settle_by_hand)
        return Subscription(await _wait(pending, timeout))

    async def subscribe_by_multicast(
        self,
        group: str,
        topic_filter: str,
        *,
        reliability: Reliability = Reliability.AT_LEAST_ONCE,
        last_values: bool = True,
        keeps_all: bool = True,
        timeout: Optional[float] = None,
    ) -> Subscription:
        """As :meth:`thalweg.Client.subscribe_by_multicast`."""
        pending = self._native.subscribe(topic_filter, group, int(Reliability(reliability)), last_values, keeps_all, False)
        return Subscription(await _wait(pending, timeout))

    async def request(self, topic: str, payload: Payload, *, timeout: float = 10.0, **how: Unpack[How]) -> Message:
        """Publishes a question and returns the answer."""
        return Message(*await _wait(self._native.request(topic, payload_bytes(payload), options(**how), timeout)))

    async def last_value(self, topic: str, *, timeout: Optional[float] = 10.0) -> Optional[Message]:
        """The last value of a topic; ``None`` if it has none."""
        found = await _wait(self._native.last_value(topic), timeout)
        return None if found is None else Message(*found)

    async def presence(self, client_id: str = "+", *, timeout: Optional[float] = None) -> PresenceSubscription:
        """Clients of this name (``+``: all) that come and go: first who is here, then every change.

        Thalweg tells it where ``presence.enabled`` is set.

        :raises Refused: the broker does not tell it, or not to this user.
        """
        return PresenceSubscription(await _wait(self._native.presence(client_id), timeout))

    def explain(self) -> str:
        """Why messages go the way they go, in words."""
        return self._native.explain()

    def status(self) -> dict[str, Any]:
        """Lanes and their states; ``buffer``: what waits and how the disk is; ``counts``; ``failures``: the last 64, as pairs of
        ticket and reason."""
        return self._native.status()

    async def flush(self, timeout: Optional[float] = None) -> bool:
        """Waits until nothing waits here any more; ``False`` if the time was over first."""
        return bool(await _wait(self._native.flush(timeout)))

    async def close(self, timeout: float = 5.0) -> bool:
        """Waits so long for what is on its way, then ends the connections; ``False`` if something was still on its way.

        What is on disk stays there. Callbacks have been called when it returns.
        """
        is_done = bool(await _wait(self._native.close(timeout)))
        if self._events is not None and self._events is not asyncio.current_task():
            await asyncio.wait({self._events}, timeout=max(timeout, 0.0))
        return is_done

    async def __aenter__(self) -> Client:
        self._follow()
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self.close(5.0 if kind is None else 0.0)


async def _follow(callbacks: Callbacks) -> None:
    while (events := await _wait(callbacks.queue.next(), None)) is not None:
        callbacks.tell(events)


class _Receiver:
    def __init__(self, native: Any) -> None:
        self._native = native

    def unsubscribe(self) -> None:
        """No more of it. What has come already can still be read."""
        self._native.unsubscribe()


class Subscription(_Receiver):
    """Messages of a filter, in order. A message counts as received when it has been read from here."""

    async def next(self, timeout: Optional[float] = None) -> Optional[Message]:
        """The next message; ``None`` when the subscription has ended."""
        found = await _wait(self._native.next(), timeout)
        return None if found is None else Message(*found)

    def settle(self) -> None:
        """As :meth:`thalweg.Subscription.settle`."""
        self._native.settle()

    @property
    def granted(self) -> Reliability:
        """How surely messages come: what was wished, or less if the broker grants less."""
        return Reliability(self._native.granted())

    @property
    def ended(self) -> Optional[str]:
        """Why it has ended by itself; ``None`` if it has not, or was asked to."""
        ended: Optional[str] = self._native.ended()
        return ended

    async def __aiter__(self) -> AsyncIterator[Message]:
        while (message := await self.next()) is not None:
            yield message


class PresenceSubscription(_Receiver):
    """Who comes and goes."""

    async def next(self, timeout: Optional[float] = None) -> Optional[Presence]:
        """The next change; ``None`` when the subscription has ended."""
        found = await _wait(self._native.next(), timeout)
        return None if found is None else Presence(*found)

    async def __aiter__(self) -> AsyncIterator[Presence]:
        while (change := await self.next()) is not None:
            yield change
