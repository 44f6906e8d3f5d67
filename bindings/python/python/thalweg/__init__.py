"""The common middleware for the Internet of Things.

Publish a reading and know that it arrived, whatever protocol carries it::

    import thalweg

    with thalweg.connect("mqtt://gateway", "coap://gateway") as client:
        ticket = client.publish_message(b"21.5", "", "plant/1/temperature")
        client.flush()
        assert client.is_publish_success(ticket)

With asyncio the same names are in :mod:`thalweg.aio`.
"""

from ._thalweg import BufferFull, Closed, Refused, ThalwegError, TimedOut, __version__
from ._words import Message, Presence, Reliability, Retain, Success
from .blocking import Client, PresenceSubscription, Subscription, connect

__all__ = [
    "BufferFull",
    "Client",
    "Closed",
    "Message",
    "Presence",
    "PresenceSubscription",
    "Refused",
    "Reliability",
    "Retain",
    "Subscription",
    "Success",
    "ThalwegError",
    "TimedOut",
    "__version__",
    "connect",
]
