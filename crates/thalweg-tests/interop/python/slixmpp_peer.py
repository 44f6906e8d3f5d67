"""slixmpp as a puppet: nodes of XEP-0060 and requests by IQ, at least once by XEP-0198."""

import asyncio
import threading

import puppet
from xmpp_client import DOMAIN, SERVICE, Client, element_of, payload_of

DATA = "{jabber:x:data}"
RELIABILITY = f".//{DATA}x/{DATA}field[@var='x-reliability']/{DATA}value"
REDELIVERED = "{http://jabber.org/protocol/shim}headers/{http://jabber.org/protocol/shim}header[@name='Redelivered']"

# All peers share one event loop in a thread of its own; commands hand coroutines to it.
LOOP = asyncio.new_event_loop()
threading.Thread(target=LOOP.run_forever, daemon=True).start()


class Peer:
    def __init__(self, name):
        self.name = name

    def connect(self, command):
        self._do(self._connect(command))

    def subscribe(self, command):
        wishes = {"pubsub#subscription_depth": command.get("depth"), "x-reliability": command.get("reliability")}
        wishes = {name: value for name, value in wishes.items() if value is not None}
        options = self.client.form() if wishes else None
        for name, value in wishes.items():
            options.add_field(var=name, value=value)
        request = self.client.pubsub.subscribe
        answer = self._do(request(SERVICE, command["node"], options=options, timeout=puppet.PATIENCE_S))
        told = answer.xml.find(RELIABILITY)
        return {"reliability": None if told is None else told.text}

    def publish(self, command):
        options = {}
        if not command["keep"]:
            options["persist_items"] = "0"
        if "expiry" in command:
            options["item_expire"] = str(command["expiry"])
        form = self.client.form(**options) if options else None
        element = element_of(bytes.fromhex(command["payload"]), command.get("content_type"))
        request = self.client.pubsub.publish
        self._do(request(SERVICE, command["node"], payload=element, options=form, timeout=puppet.PATIENCE_S))

    def purge(self, command):
        self._do(self.client.pubsub.purge(SERVICE, command["node"], timeout=puppet.PATIENCE_S))

    def request(self, command):
        question = self.client.make_iq_get(ito=f"rpc.{DOMAIN}/{command['address']}")
        question.append(element_of(bytes.fromhex(command["payload"])))
        answer = self._do(question.send(timeout=puppet.PATIENCE_S))
        return {"payload": payload_of(answer.xml[0])[0].hex()}

    def disconnect(self, _command):
        self._do(self.client.disconnect())

    def _do(self, coroutine):
        async def patient():
            return await asyncio.wait_for(coroutine, puppet.PATIENCE_S)

        return asyncio.run_coroutine_threadsafe(patient(), LOOP).result()

    async def _connect(self, command):
        # A session that outlived its connection would keep what it has not acknowledged.
        self.client = Client(self._on_item, managed=True, resumes=False)
        if command.get("unsettled"):
            self.client.plugin["xep_0198"].send_ack = lambda: None
        self.client.add_event_handler("disconnected", lambda _: puppet.event("closed", self.name))
        await self.client.log_in(command["port"], puppet.PATIENCE_S, command["host"])

    def _on_item(self, message, node, item):
        payload, content_type = payload_of(item["payload"])
        puppet.event(
            "message",
            self.name,
            node=node,
            payload=payload.hex(),
            content_type=content_type,
            redelivered=message.xml.find(REDELIVERED) is not None,
        )


puppet.run(Peer)
