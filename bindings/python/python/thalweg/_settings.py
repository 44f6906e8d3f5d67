"""Settings of a client, checked where they are given."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Sequence, Tuple, TypedDict, Union

from ._tls import authorities_of
from ._words import Connected, Lost, Moved, Multicast, Outcome, Reliability, Retain, Will

if TYPE_CHECKING:
    import ssl

Payload = Union[bytes, bytearray, memoryview, str]
Properties = Union[Mapping[str, str], Sequence[Tuple[str, str]]]

Path = Union[str, "os.PathLike[str]"]


class Settings(TypedDict, total=False):
    """What ``connect`` takes beside the brokers; type checkers find a name that is misspelt."""

    via: str
    objective: Union[str, Mapping[str, float]]
    client_id: Optional[str]
    user: Optional[str]
    password: Union[str, bytes, None]
    session: float
    buffer_messages: Optional[int]
    buffer_bytes: Optional[int]
    buffer_folder: Optional[Path]
    overflow: str
    disk_full: str
    when_refused: str
    calibration: Optional[Path]
    ca: Optional[Path]
    certificate: Optional[Path]
    key: Optional[Path]
    insecure: bool
    psk_identity: Optional[str]
    psk_key: Optional[bytes]
    curve_server: Union[str, bytes, None]
    curve_secret: Union[str, bytes, None]
    ssl_context: Optional[ssl.SSLContext]
    mqtt_version: int
    peer_bind: Optional[str]
    peers: Sequence[str]
    multicast_interfaces: Sequence[str]
    dscp: Optional[int]
    backoff: Optional[Tuple[float, float]]
    will: Optional[Will]
    on_connected: Optional[Callable[[Connected], object]]
    on_lost: Optional[Callable[[Lost], object]]
    on_moved: Optional[Callable[[Moved], object]]
    on_multicast: Optional[Callable[[Multicast], object]]
    on_outcome: Optional[Callable[[Outcome], object]]


class How(TypedDict, total=False):
    """How a message goes."""

    reliability: Union[Reliability, int]
    retain: Union[Retain, int]
    lifespan: Optional[float]
    priority: int
    content_type: Optional[str]
    properties: Optional[Properties]
    reply_to: Optional[str]
    correlation: Optional[bytes]
    is_text: bool


#: What ``connect`` takes beside the brokers, and what is in force if nothing is said.
DEFAULTS: dict[str, Any] = {
    "via": "auto",
    "objective": "latency",
    "client_id": None,
    "user": None,
    "password": None,
    "session": 0.0,
    "buffer_messages": None,
    "buffer_bytes": None,
    "buffer_folder": None,
    "overflow": "refuse",
    "disk_full": "refuse",
    "when_refused": "wait",
    "calibration": None,
    "ca": None,
    "certificate": None,
    "key": None,
    "insecure": False,
    "psk_identity": None,
    "psk_key": None,
    "curve_server": None,
    "curve_secret": None,
    "ssl_context": None,
    "mqtt_version": 5,
    "peer_bind": None,
    "peers": (),
    "multicast_interfaces": (),
    "dscp": None,
    "backoff": None,
    "will": None,
    "on_connected": None,
    "on_lost": None,
    "on_moved": None,
    "on_multicast": None,
    "on_outcome": None,
}


def settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in force; a name that nobody knows is refused."""
    unknown = sorted(set(given) - set(DEFAULTS))
    if unknown:
        raise TypeError(f"unknown setting {unknown[0]!r}; there are {', '.join(sorted(DEFAULTS))}")
    all_of_them = {**DEFAULTS, **given}
    if isinstance(all_of_them["password"], str):
        all_of_them["password"] = all_of_them["password"].encode()
    for name in ("curve_server", "curve_secret"):
        if isinstance(all_of_them[name], bytes):
            # As zmq.curve_keypair() makes them.
            all_of_them[name] = all_of_them[name].decode("ascii", "replace")
    for name in ("buffer_folder", "calibration", "ca", "certificate", "key"):
        if all_of_them[name] is not None:
            all_of_them[name] = os.fspath(all_of_them[name])
    for name, each in (("peers", "HOST:PORT"), ("multicast_interfaces", "an IP address")):
        if isinstance(all_of_them[name], str):
            raise TypeError(f"{name} is a list of texts, each {each}, not one text")
        all_of_them[name] = list(all_of_them[name])
    all_of_them["authorities"] = []
    context = all_of_them.pop("ssl_context")
    if context is not None:
        for name in ("ca", "insecure"):
            if all_of_them[name]:
                raise TypeError(f"ssl_context says what {name} says, too: give one of them")
        all_of_them["authorities"] = authorities_of(context)
        all_of_them["insecure"] = not all_of_them["authorities"]
    will = all_of_them["will"]
    if will is not None:
        if not isinstance(will, Will):
            raise TypeError(f"will is a thalweg.Will, not {type(will).__name__}")
        all_of_them["will"] = (will.topic, payload_bytes(will.payload), int(Reliability(will.reliability)), bool(will.retain))
    return all_of_them


def payload_bytes(payload: Payload) -> bytes:
    """Text goes as UTF-8. ``bytes(5)`` would be five zeros and ``bytes([1, 2])`` two bytes: nobody means that."""
    if isinstance(payload, str):
        return payload.encode()
    if isinstance(payload, bytes):
        return payload
    try:
        return bytes(memoryview(payload))
    except TypeError:
        kind = type(payload).__name__
        raise TypeError(f"a payload is str or bytes-like, not {kind}: say how it is written, with str() or json.dumps()") from None


def options(
    *,
    reliability: Union[Reliability, int] = Reliability.AT_LEAST_ONCE,
    retain: Union[Retain, int] = Retain.NO,
    lifespan: Optional[float] = None,
    priority: int = 4,
    content_type: Optional[str] = None,
    properties: Optional[Properties] = None,
    reply_to: Optional[str] = None,
    correlation: Optional[bytes] = None,
    is_text: bool = False,
) -> tuple[Any, ...]:
    """How a message goes, in the order in which the native part has it.

    :param reliability: how surely it arrives.
    :param retain: what it does to the topic's last value.
    :param lifespan: seconds for which it is worth delivering, also while it waits here. Default: for ever.
    :param priority: 0 to 9; higher goes first.
    :param content_type: media type of the payload, such as ``application/json``.
    :param properties: names and values of your own; pairs, if a name repeats.
    :param reply_to: the topic where an answer goes.
    :param correlation: what ties an answer to its request.
    :param is_text: tells receivers that the payload is UTF-8 text.
    """
    pairs = list(properties.items()) if isinstance(properties, Mapping) else list(properties or ())
    if not 0 <= priority <= 9:
        raise ValueError(f"priority is 0 to 9, not {priority}")
    if lifespan is not None and not lifespan >= 0:
        raise ValueError(f"lifespan is a time in seconds, not {lifespan}")
    return (
        int(Reliability(reliability)),
        int(Retain(retain)),
        lifespan,
        priority,
        content_type,
        pairs,
        reply_to,
        correlation,
        is_text,
    )
