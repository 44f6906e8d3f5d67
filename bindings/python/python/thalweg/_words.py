"""What messages are and how they fare, as both faces of the client say it."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Optional, Union


class Reliability(enum.IntEnum):
    """How surely a message arrives."""

    AT_MOST_ONCE = 0
    """May be lost, is never repeated."""
    AT_LEAST_ONCE = 1
    """Not lost once acknowledged, may be repeated."""
    EXACTLY_ONCE = 2
    """Neither lost nor repeated."""


class Retain(enum.IntEnum):
    """What publishing does to the topic's last value."""

    NO = 0
    """Whatever the protocol that carries the message does with a plain publish."""
    SET = 1
    """The message becomes the last value."""
    CLEAR = 2
    """The last value is forgotten."""


class Success(enum.Enum):
    """What became of a message: the answer of ``is_publish_success``."""

    PENDING = "pending"
    """It waits, or is on its way."""
    ACKNOWLEDGED = "acknowledged"
    """The broker took it."""
    FAILED = "failed"
    """The broker refused it, or it expired here."""
    UNKNOWN = "unknown"
    """Nobody can say: it was sent at most once, or never acknowledged, or is long forgotten."""

    def __bool__(self) -> bool:
        return self is Success.ACKNOWLEDGED


@dataclass(frozen=True)
class Message:
    """A message that came."""

    topic: str
    payload: bytes
    reliability: Reliability = Reliability.AT_MOST_ONCE
    is_last_value: bool = False
    """It is from before the subscription."""
    repeated: bool = False
    """It may have come before."""
    content_type: Optional[str] = None
    properties: tuple[tuple[str, str], ...] = field(default=())
    reply_to: Optional[str] = None
    correlation: Optional[bytes] = None


@dataclass(frozen=True)
class Will:
    """What the broker publishes for a client that vanishes; only MQTT carries it."""

    topic: str
    payload: Union[bytes, bytearray, memoryview, str] = b""
    """At most 65,535 bytes; text goes as UTF-8."""
    reliability: Reliability = Reliability.AT_LEAST_ONCE
    retain: bool = False
    """It becomes the topic's last value."""


@dataclass(frozen=True)
class Connected:
    """A broker accepted a connection: what ``on_connected`` is given."""

    protocol: str
    """``mqtt``, ``coap``, ``amqp``, ``stomp`` or ``zmtp``."""
    place: str
    """Host and port, or a path."""
    session_present: bool
    """The broker had kept our session."""


@dataclass(frozen=True)
class Lost:
    """A connection ended, and the client did not end it: what ``on_lost`` is given. It is made again."""

    protocol: str
    place: str
    why: str
    is_final: bool
    """The broker does not want us as we are; the client tries again rarely."""


@dataclass(frozen=True)
class Moved:
    """Messages are published by another protocol or broker from now on: what ``on_moved`` is given."""

    from_protocol: str
    from_place: str
    to_protocol: str
    to_place: str


@dataclass(frozen=True)
class Multicast:
    """A subscription by a multicast group is served by it from now on, or is an ordinary one: what ``on_multicast`` is given."""

    group: str
    topic_filter: str
    why_not: str
    """Why it is an ordinary one; empty if the group serves it."""


@dataclass(frozen=True)
class Outcome:
    """What became of a message: what ``on_outcome`` is given."""

    ticket: int
    success: Success
    why: Optional[str]
    """Why it failed, if it did."""


@dataclass(frozen=True)
class Presence:
    """A client came or went."""

    client_id: str
    online: bool
    protocol: str = ""
    """What it speaks, as people write it: `MQTT 5.0`."""
    since: float = 0.0
    """Since when, in seconds since 1970, by the broker's clock."""
    why: Optional[str] = None
    """Why it is not here any more: `goodbye`, `lost`, `silent` or `cut`."""
    claimed: bool = False
    """Nothing but the client says that this is its name: it speaks AMQP or STOMP, and is not the user of that name."""
