"""The client for programs without an event loop. Every method may be called from any thread."""

from __future__ import annotations

import atexit
import threading
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any, Iterator, Optional, Type, TypeVar

from . import _thalweg
from ._events import Callbacks
from ._settings import How, Payload, Settings, options, payload_bytes, settings
from ._words import Message, Presence, Reliability, Success

if TYPE_CHECKING:
    from typing_extensions import Unpack


def connect(*brokers: str, **given: Unpack[Settings]) -> Client:
    """A client of these brokers, each a URL such as ``mqtt://host``, ``coap://host``, ``amqps://user:password@host``.

    Returns at once: the network is reached in the background, and what is published before that waits in the buffer.

    :param via: ``auto`` (whichever protocol serves the objective best), or one of ``mqtt``, ``coap``, ``amqp``, ``stomp``, ``zmtp``.
    :param objective: ``latency``, ``bytes`` or ``energy``; or weights such as ``{"latency": 2, "bytes": 1}``.
    :param client_id: our name towards brokers. Default: they choose.
    :param user: user name; so are those in a broker's URL.
    :param password: of this user, text or bytes.
    :param session: seconds that a broker keeps our subscriptions and their messages while we are away; needs ``client_id``.
    :param buffer_messages: how many messages may wait here. Default: 100,000.
    :param buffer_bytes: how many bytes may wait here. Default: 16 MiB.
    :param buffer_folder: keep what waits on disk in this folder, so that it survives ``kill -9`` and power loss.
    :param overflow: ``refuse`` (a publish raises :class:`BufferFull`) or ``drop-oldest``.
    :param disk_full: ``refuse``, or ``memory``: goes on in memory when the disk is full or fails.
    :param when_refused: what becomes of messages in memory when every broker refuses the log-in: ``wait``, or ``fail``.
    :param calibration: a ``calibration.json`` of the laboratory instead of the built-in one.
    :param ca: file with the authorities to trust, PEM. Default: the system's.
    :param certificate: file with our own certificate chain, PEM.
    :param key: file with its key, PEM.
    :param insecure: do not check the broker's certificate: anybody can pretend to be it.
    :param ssl_context: an :class:`ssl.SSLContext` in place of ``ca`` and ``insecure``: its authorities, and whether it checks, are
        taken over; what cannot be taken over is a :class:`ValueError`. A client certificate cannot be read out of it: name
        ``certificate`` and ``key``.
    :param psk_identity: our name for DTLS with a pre-shared key (``coaps``).
    :param psk_key: that key, bytes.
    :param curve_server: the broker's public key of CURVE (``zmtp``), 40 characters of Z85, text or bytes.
    :param curve_secret: our secret key, written alike.
    :param mqtt_version: 5, or 4 for MQTT 3.1.1.
    :param peer_bind: peer mode: listen at this ``HOST:PORT`` and send what is published straight to the peers that subscribe.
        Messages go at most once; brokers, each a ``zmtp://`` URL, may be left out, and are joined while they run.
    :param peers: peer mode: receive from the peers that listen at these places, each ``HOST:PORT``: clients with ``peer_bind``, and
        ZeroMQ PUB sockets that bind.
    :param multicast_interfaces: IP addresses of the network interfaces at which :meth:`Client.subscribe_by_multicast` may join
        groups. Default: none, so that nothing is received by multicast.
    :param dscp: class of service by which routers may tell what this client sends: the number in each IP header, 0 to 63; 46 is
        expedited forwarding. Default: the system's.
    :param backoff: pair of seconds: shortest and longest wait before a broken connection is tried again. Default: 0.2 and 30.
    :param will: what brokers publish for us when we vanish; only MQTT carries it, other brokers beside it are refused.
    :param on_connected: called with :class:`Connected` when a broker accepts a connection.
    :param on_lost: called with :class:`Lost` when a connection ends and the client did not end it.
    :param on_moved: called with :class:`Moved` when messages are published by another protocol or broker from now on.
    :param on_multicast: called with :class:`Multicast` when a subscription by multicast is served by its group from now on, or is an
        ordinary one.
    :param on_outcome: called with :class:`Outcome` for every message that gets one before the client is closed.

    Callbacks are called one after the other in a thread of their own, ``thalweg-events``. One that blocks delays the others
    and the log, and never messages; 65,536 events wait, then the oldest is dropped and the log says how many were. One that
    raises is logged, and the next is called. What happens is also logged by the logger ``thalweg``, without payloads,
    user names and passwords.
    """
    return Client(*brokers, **given)


class Client:
    """A connection to brokers by whatever protocol; see :func:`connect` for its parameters."""

    def __init__(self, *brokers: str, **given: Unpack[Settings]) -> None:
        checked = settings(given)
        self._callbacks = Callbacks(checked)
        self._native = _thalweg.Client(list(brokers), checked)
        self._events = self._callbacks.follow()
        _OPEN.add(self)

    def publish_message(self, message: Payload, destination: str, topic: str, **how: Unpack[How]) -> int:
        """Hands a message over and returns its ticket. Never waits.

        :param destination: a broker's URL, or ``""``: the client's brokers.
        :param how: how it goes: see publish options.
        :raises BufferFull: nothing was taken.
        """
        return self._native.publish_message(payload_bytes(message), destination, topic, options(**how))

    def is_publish_success(self, ticket: int) -> Success:
        """What is known of a message now."""
        return Success(self._native.is_publish_success(ticket))

    def outcome(self, ticket: int, *, timeout: Optional[float] = None) -> Success:
        """Waits until something has become of a message.

        :raises TimedOut: nothing has after so many seconds.
        """
        return Success(self._native.outcome(ticket).wait(timeout))

    def why_failed(self, ticket: int) -> Optional[str]:
        """Why a message failed, in the broker's words where it had some. The last 1,024 are remembered."""
        return self._native.why_failed(ticket)

    def is_stored(self, ticket: int) -> bool:
        """Whether a message would survive the end of this process: with ``buffer_folder``, whether it is there."""
        return self._native.is_stored(ticket)

    def stored(self, ticket: int, *, timeout: Optional[float] = None) -> None:
        """Waits for :meth:`is_stored`: after that a gateway may forget its own copy.

        :raises ThalwegError: it is not on disk and will not be; the words say why.
        """
        self._native.stored(ticket).wait(timeout)

    def publish(self, topic: str, payload: Payload, *, timeout: Optional[float] = None, **how: Unpack[How]) -> Success:
        """Publishes and waits for the outcome.

        :raises TimedOut: there is none after so many seconds; the message is still on its way.
        """
        return Success(self._native.publish(topic, payload_bytes(payload), options(**how)).wait(timeout))

    def subscribe(
        self,
        topic_filter: str,
        *,
        reliability: Reliability = Reliability.AT_LEAST_ONCE,
        last_values: bool = True,
        keeps_all: bool = True,
        settle_by_hand: bool = False,
        timeout: Optional[float] = None,
    ) -> Subscription:
        """Wants what is published at the addresses of a filter (``+`` one level, ``#`` all that follow).

        Returns when a broker has agreed, so that nothing published after that is missed.

        :param last_values: last values come first.
        :param keeps_all: every message is wanted; ``False`` allows protocols that skip to the newest state (CoAP).
        :param settle_by_hand: a message counts as received when :meth:`Subscription.settle` says so, and not when it is read
            from the subscription: a broker that keeps messages for us (``session``, or a queue ``$q/name``) brings them again
            if this process ends before. Not at most once, and not over CoAP.
        :raises Refused: the broker does not allow it, or no protocol that was named can do it.
        """
        pending = self._native.subscribe(topic_filter, None, int(Reliability(reliability)), last_values, keeps_all, settle_by_hand)
        return Subscription(pending.wait(timeout))

    def subscribe_by_multicast(
        self,
        group: str,
        topic_filter: str,
        *,
        reliability: Reliability = Reliability.AT_LEAST_ONCE,
        last_values: bool = True,
        keeps_all: bool = True,
        timeout: Optional[float] = None,
    ) -> Subscription:
        """As :meth:`subscribe`, served by the broker's multicast group of this name where that is possible: the group carries all
        that the filter asks for, one of ``multicast_interfaces`` joins it, and the broker is heard.

        Else, and when that ends, it is an ordinary subscription: ``on_multicast``, the log and ``status()["groups"]`` say why, and
        ``last_values`` and ``keeps_all`` are for that one. Around the change messages may be missed, or come twice.

        :param reliability: at most once, what is lost is lost; otherwise it is asked for over the client's connection, and lost
            only if the broker no longer has it. ``status()["groups"]`` counts both.
        :raises Refused: the broker does not allow it.
        """
        pending = self._native.subscribe(topic_filter, group, int(Reliability(reliability)), last_values, keeps_all, False)
        return Subscription(pending.wait(timeout))

    def request(self, topic: str, payload: Payload, *, timeout: float = 10.0, **how: Unpack[How]) -> Message:
        """Publishes a question and returns the answer.

        :raises TimedOut: no answer came within so many seconds.
        """
        return Message(*self._native.request(topic, payload_bytes(payload), options(**how), timeout).wait(None))

    def last_value(self, topic: str, *, timeout: Optional[float] = 10.0) -> Optional[Message]:
        """The last value of a topic; ``None`` if it has none."""
        found = self._native.last_value(topic).wait(timeout)
        return None if found is None else Message(*found)

    def presence(self, client_id: str = "+", *, timeout: Optional[float] = None) -> PresenceSubscription:
        """Clients of this name (``+``: all) that come and go: first who is here, then every change.

        Thalweg tells it where ``presence.enabled`` is set.

        :raises Refused: the broker does not tell it, or not to this user.
        """
        return PresenceSubscription(self._native.presence(client_id).wait(timeout))

    def explain(self) -> str:
        """Why messages go the way they go, in words."""
        return self._native.explain()

    def status(self) -> dict[str, Any]:
        """Lanes and their states; ``buffer``: what waits and how the disk is; ``counts``; ``failures``: the last 64, as pairs of
        ticket and reason; ``peers``: of peer mode, how many connections are ``subscribers`` to this client, and how many
        ``publishers`` it receives from; ``groups``: subscriptions by multicast, ``why_not`` being the reason if one is an ordinary
        one."""
        return self._native.status()

    def flush(self, timeout: Optional[float] = None) -> bool:
        """Waits until nothing waits here any more; ``False`` if the time was over first."""
        return bool(self._native.flush(timeout).wait(None))

    def close(self, timeout: float = 5.0) -> bool:
        """Waits so long for what is on its way, then ends the connections; ``False`` if something was still on its way.

        What is on disk stays there. Callbacks have been called when it returns, unless one of them blocks for longer than
        ``timeout``, or calls this.
        """
        _OPEN.discard(self)
        is_done = bool(self._native.close(timeout).wait(None))
        if threading.current_thread() is not self._events:
            # Also without time for messages: a thread in native code must not outlive the interpreter.
            self._events.join(max(timeout, 1.0))
        return is_done

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close(5.0 if kind is None else 0.0)


# Clients that were not closed. When the interpreter ends it unwinds threads that come back from native code, which
# crashes in a module that has an unwinder of its own, as wheels have.
_OPEN: "weakref.WeakSet[Client]" = weakref.WeakSet()


def _close_all() -> None:
    for client in list(_OPEN):
        client.close(0.0)


atexit.register(_close_all)

_Self = TypeVar("_Self", bound="_Receiver")


class _Receiver:
    def __init__(self, native: Any) -> None:
        self._native = native

    def unsubscribe(self) -> None:
        """No more of it. What has come already can still be read."""
        self._native.unsubscribe()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.unsubscribe()


class Subscription(_Receiver):
    """Messages of a filter, in order. A message counts as received when it has been read from here; with ``settle_by_hand``,
    when it is settled."""

    def next(self, timeout: Optional[float] = None) -> Optional[Message]:
        """The next message; ``None`` when the subscription has ended.

        :raises TimedOut: none came within so many seconds.
        """
        found = self._native.next().wait(timeout)
        return None if found is None else Message(*found)

    def settle(self) -> None:
        """The message that was read longest ago and is not settled is done with: the broker may forget it.

        Only with ``settle_by_hand``; otherwise it does nothing. To give messages back, end the subscription or the client
        without settling them: a broker that keeps them brings them again.
        """
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

    def __iter__(self) -> Iterator[Message]:
        while (message := self.next()) is not None:
            yield message


class PresenceSubscription(_Receiver):
    """Who comes and goes."""

    def next(self, timeout: Optional[float] = None) -> Optional[Presence]:
        """The next change; ``None`` when the subscription has ended."""
        found = self._native.next().wait(timeout)
        return None if found is None else Presence(*found)

    def __iter__(self) -> Iterator[Presence]:
        while (change := self.next()) is not None:
            yield change
