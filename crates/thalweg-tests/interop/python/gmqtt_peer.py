"""gmqtt, an asyncio client, as a puppet: MQTT 3.1.1 and 5 over TCP and TLS."""

import asyncio
import logging
import ssl
import threading

import gmqtt
from gmqtt.mqtt.constants import MQTTv50, MQTTv311

import puppet

# Cut connections are what the checks are about; the library would report each of them.
logging.disable(logging.CRITICAL)

# All peers share one event loop in a thread of its own; commands hand coroutines to it.
LOOP = asyncio.new_event_loop()
threading.Thread(target=LOOP.run_forever, daemon=True).start()

NAMES = {
    "content_type": "content_type",
    "response_topic": "response_topic",
    "expiry": "message_expiry_interval",
    "format": "payload_format_id",
    "alias": "topic_alias",
    "user": "user_property",
}


def properties_out(wanted):
    properties = {theirs: wanted[ours] for ours, theirs in NAMES.items() if ours in wanted}
    if "user" in wanted:
        properties["user_property"] = [tuple(pair) for pair in wanted["user"]]
    if "correlation" in wanted:
        properties["correlation_data"] = bytes.fromhex(wanted["correlation"])
    return properties


class Peer:
    def __init__(self, name):
        self.name = name
        self.answers = {}

    def connect(self, command):
        return self._do(self._connect(command))

    def subscribe(self, command):
        return self._do(self._subscribe(command))

    def unsubscribe(self, command):
        return self._do(self._unsubscribe(command))

    def publish(self, command):
        return self._do(self._publish(command))

    def disconnect(self, _command):
        return self._do(self.client.disconnect())

    def _do(self, coroutine):
        return asyncio.run_coroutine_threadsafe(
            asyncio.wait_for(coroutine, puppet.PATIENCE_S), LOOP
        ).result()

    async def _connect(self, command):
        self.version = command["version"]
        properties = {}
        if self.version == 5:
            if "expiry" in command:
                properties["session_expiry_interval"] = command["expiry"]
            if "topic_alias_maximum" in command:
                properties["topic_alias_maximum"] = command["topic_alias_maximum"]
        will = None
        if "will" in command:
            sent = command["will"]
            will = gmqtt.Message(
                sent["topic"],
                bytes.fromhex(sent["payload"]),
                sent["qos"],
                sent["retain"],
                **properties_out(sent.get("properties", {})),
            )
        self.client = gmqtt.Client(
            command["client_id"], clean_session=command["clean"], will_message=will, **properties
        )
        # Below the library's own "unlimited" (-1), this means: never.
        self.client.set_config({"reconnect_retries": -2})
        connected = self._expect("connack", 0)
        self.client.on_connect = lambda _c, flags, code, _p: self._answer("connack", 0, (flags, code))
        self.client.on_disconnect = lambda _c, packet, exc=None: puppet.closed_event(
            self.name, packet[0] if packet else None
        )
        self.client.on_message = self._on_message
        self.client.on_subscribe = lambda _c, mid, qos, _p: self._answer("suback", mid, list(qos))
        self.client.on_unsubscribe = lambda _c, mid, codes: self._answer("unsuback", mid, list(codes))
        context = ssl.create_default_context(cafile=command["ca"]) if command["transport"] == "tls" else False
        await self.client.connect(
            command["host"],
            command["port"],
            ssl=context,
            keepalive=30,
            version=MQTTv50 if self.version == 5 else MQTTv311,
        )
        flags, code = await connected
        return {"session_present": bool(flags), "reason": code}

    async def _subscribe(self, command):
        subscriptions = [
            gmqtt.Subscription(
                f["filter"],
                qos=f["qos"],
                no_local=f.get("no_local", False),
                retain_as_published=f.get("retain_as_published", False),
                retain_handling_options=f.get("retain_handling", 0),
            )
            for f in command["filters"]
        ]
        properties = {}
        if "identifier" in command:
            properties["subscription_identifier"] = command["identifier"]
        mid = self.client.subscribe(subscriptions, **properties)
        return {"reasons": await self._expect("suback", mid)}

    async def _unsubscribe(self, command):
        mid = self.client.unsubscribe(command["filters"])
        reasons = await self._expect("unsuback", mid)
        return {"reasons": reasons if self.version == 5 else []}

    async def _publish(self, command):
        message = gmqtt.Message(
            command["topic"],
            bytes.fromhex(command["payload"]),
            command["qos"],
            command["retain"],
            **(properties_out(command.get("properties", {})) if self.version == 5 else {}),
        )
        self.client.publish(message)
        # The library tells of acknowledgements by forgetting what it stored.
        await self.client._persistent_storage.wait_empty()
        return {"reason": 0}

    def _on_message(self, _client, topic, payload, qos, properties):
        sent = properties or {}

        def only(name):
            values = sent.get(name)
            return values[0] if values else None

        correlation = only("correlation_data")
        puppet.message_event(
            self.name,
            topic,
            payload,
            qos,
            bool(sent.get("retain")),
            {
                "user": sent.get("user_property"),
                "content_type": only("content_type"),
                "response_topic": only("response_topic"),
                "correlation": None if correlation is None else bytes(correlation).hex(),
                "expiry": only("message_expiry_interval"),
                "format": only("payload_format_id"),
                "identifiers": sent.get("subscription_identifier"),
            },
        )
        return 0

    def _expect(self, packet, mid):
        return self.answers.setdefault((packet, mid), LOOP.create_future())

    def _answer(self, packet, mid, value):
        future = self._expect(packet, mid)
        del self.answers[packet, mid]
        if not future.done():
            future.set_result(value)


puppet.run(Peer)
