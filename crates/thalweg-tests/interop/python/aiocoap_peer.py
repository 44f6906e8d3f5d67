"""aiocoap, an asyncio client, as a puppet: CoAP over UDP, TCP and WebSocket."""

import asyncio
import logging
import threading

import aiocoap
from aiocoap.numbers import codes

import puppet

# Observations that are still there at the end are what the checks are about; the library would report each of them.
logging.disable(logging.CRITICAL)

# All peers share one event loop in a thread of its own; commands hand coroutines to it.
LOOP = asyncio.new_event_loop()
threading.Thread(target=LOOP.run_forever, daemon=True).start()


def told(response):
    """What a response says, under the names of the README."""
    options = response.opt
    return {
        "code": str(response.code).split()[0],
        "payload": response.payload.hex(),
        "content_format": None if options.content_format is None else int(options.content_format),
        "max_age": next((option.value for option in options.option_list() if option.number == 14), None),
        "etag": None if options.etag is None else options.etag.hex(),
        "location": list(options.location_path) or None,
        "sequence": options.observe,
    }


class Peer:
    def __init__(self, name):
        self.name = name
        self.context = None
        self.observations = {}

    def connect(self, command):
        scheme = {"udp": "coap", "tcp": "coap+tcp", "ws": "coap+ws"}[command.get("transport", "udp")]
        self.base = f"{scheme}://{command['host']}:{command['port']}"
        self.context = self._do(aiocoap.Context.create_client_context())

    def request(self, command):
        response = self._do(self.context.request(self._message(command)).response)
        return without_none(told(response))

    def observe(self, command):
        return self._do(self._observe(command))

    def end(self, command):
        """Ends an observation in the library's own way."""
        LOOP.call_soon_threadsafe(self.observations.pop(command["observation"]).cancel)

    def disconnect(self, _command):
        self._do(self.context.shutdown())

    def _do(self, coroutine):
        async def patient():
            return await asyncio.wait_for(coroutine, puppet.PATIENCE_S)

        return asyncio.run_coroutine_threadsafe(patient(), LOOP).result()

    def _message(self, command):
        tuning = aiocoap.Reliable if command.get("confirmable", True) else aiocoap.Unreliable
        message = aiocoap.Message(
            code=getattr(codes.Code, command.get("method", "GET")),
            payload=bytes.fromhex(command.get("payload", "")),
            transport_tuning=tuning,
        )
        message.set_request_uri(self.base)
        message.opt.uri_path = tuple(command["path"])
        message.opt.uri_query = tuple(command.get("query", ()))
        if "content_format" in command:
            message.opt.content_format = command["content_format"]
        if "accept" in command:
            message.opt.accept = command["accept"]
        return message

    async def _observe(self, command):
        message = self._message(command)
        message.opt.observe = 0
        exchange = self.context.request(message)
        first = await exchange.response
        name = command["observation"]
        if exchange.observation is not None:
            self.observations[name] = asyncio.ensure_future(self._follow(name, exchange))
        return without_none(told(first))

    async def _follow(self, name, exchange):
        try:
            async for notification in exchange.observation:
                confirmable = notification.mtype is aiocoap.CON if notification.mtype is not None else None
                puppet.event("message", self.name, observation=name, confirmable=confirmable, **told(notification))
        except aiocoap.error.Error as error:
            puppet.event("ended", self.name, observation=name, text=type(error).__name__)


def without_none(fields):
    return {key: value for key, value in fields.items() if value is not None}


puppet.run(Peer)
