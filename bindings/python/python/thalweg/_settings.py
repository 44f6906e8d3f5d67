"""Settings of a client, checked where they are given."""

from __future__ import annotations

import os
from typing import Any, Mapping, Optional, Sequence, Tuple, Union

from ._words import Reliability, Retain

Payload = Union[bytes, bytearray, memoryview, str]
Properties = Union[Mapping[str, str], Sequence[Tuple[str, str]]]

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
    """Text goes as UTF-8."""
    if isinstance(payload, str):
        return payload.encode()
    return payload if isinstance(payload, bytes) else bytes(payload)


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
