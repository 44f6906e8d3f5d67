"""The common middleware for the Internet of Things.

Publish a reading and know that it arrived, whatever protocol carries it::

    import thalweg

    with thalweg.connect("mqtt://gateway", "coap://gateway") as client:
        ticket = client.publish_message(b"21.5", "", "plant/1/temperature")
        client.flush()
        assert client.is_publish_success(ticket)

With asyncio the same names are in :mod:`thalweg.aio`.
"""

import os

from . import _thalweg
from ._thalweg import BufferFull, Closed, Refused, ThalwegError, TimedOut, __version__
from ._words import Connected, Lost, Message, Moved, Multicast, Outcome, Presence, Reliability, Retain, Success, Will
from .blocking import Client, PresenceSubscription, Subscription, connect

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_thalweg.forked)

__all__ = [
    "BufferFull",
    "Client",
    "Closed",
    "Connected",
    "Lost",
    "Message",
    "Moved",
    "Multicast",
    "Outcome",
    "Presence",
    "PresenceSubscription",
    "Refused",
    "Reliability",
    "Retain",
    "Subscription",
    "Success",
    "ThalwegError",
    "TimedOut",
    "Will",
    "__version__",
    "connect",
]
