"""Settings of a client, checked where they are given."""

from __future__ import annotations

import os
from typing import Any, Mapping, Optional, Sequence, Tuple, TypedDict, Union

from ._words import Reliability, Retain

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
    mqtt_version: int
    backoff: Optional[Tuple[float, float]]


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
    "mqtt_version": 5,
    "backoff": None,
}


def settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in force; a name that nobody knows is refused."""
    unknown = sorted(set(given) - set(DEFAULTS))
    if unknown:
        raise TypeError(f"unknown setting {unknown[0]!r}; there are {', '.join(sorted(DEFAULTS))}")
    all_of_them = {**DEFAULTS, **given}
    if isinstance(all_of_them["password"], str):
        all_of_them["password"] = all_of_them["password"].encode()
    for name in ("buffer_folder", "calibration", "ca", "certificate", "key"):
        if all_of_them[name] is not None:
            all_of_them[name] = os.fspath(all_of_them[name])
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
    """How a message goes, in the order in which the native part has it."""
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
