"""Eclipse Paho for Python as a puppet: MQTT 3.1, 3.1.1 and 5 over TCP, TLS and WebSocket."""

import threading

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

import puppet


class Peer:
    def __init__(self, name):
        self.name = name
        self.lock = threading.Lock()
        self.answers = {}  # what a callback brought, by (packet, id), until its caller takes it
        self.arrived = threading.Condition(self.lock)

    def connect(self, command):
        self.version = command["version"]
        clean = {} if self.version == 5 else {"clean_session": command["clean"]}
        self.client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2,
            client_id=command["client_id"],
            protocol=self.version,
            transport="websockets" if command["transport"] in ("ws", "wss") else "tcp",
            reconnect_on_failure=False,
            # Nothing acknowledges in the library's place then: what arrives stays unsettled.
            manual_ack=command.get("unsettled", False),
            **clean,
        )
        self.client.on_connect = self._on_connect
        self.client.on_connect_fail = lambda *_: self._answer("connack", 0, ConnectionError("no connection"))
        self.client.on_disconnect = self._on_disconnect
        self.client.on_message = self._on_message
        self.client.on_subscribe = lambda _c, _u, mid, codes, _p: self._answer("suback", mid, codes)
        self.client.on_unsubscribe = lambda _c, _u, mid, codes, _p: self._answer("unsuback", mid, codes)
        self.client.on_publish = lambda _c, _u, mid, code, _p: self._answer("puback", mid, code)
        if command["transport"] in ("ws", "wss"):
            self.client.ws_set_options(path="/mqtt")
        if command["transport"] in ("tls", "wss"):
            self.client.tls_set(ca_certs=command["ca"])
        if "will" in command:
            will = command["will"]
            self.client.will_set(
                will["topic"],
                bytes.fromhex(will["payload"]),
                will["qos"],
                will["retain"],
                self._properties(PacketTypes.WILLMESSAGE, will.get("properties", {})),
            )
        extra = {}
        if self.version == 5:
            properties = Properties(PacketTypes.CONNECT)
            if "expiry" in command:
                properties.SessionExpiryInterval = command["expiry"]
            if "topic_alias_maximum" in command:
                properties.TopicAliasMaximum = command["topic_alias_maximum"]
            extra = {"clean_start": command["clean"], "properties": properties}
        self.client.connect_async(command["host"], command["port"], keepalive=30, **extra)
        self.client.loop_start()
        flags, code = self._wait("connack", 0)
        return {"session_present": flags.session_present, "reason": code.value}

    def subscribe(self, command):
        properties = None
        if self.version == 5:
            properties = Properties(PacketTypes.SUBSCRIBE)
            if "identifier" in command:
                properties.SubscriptionIdentifier = command["identifier"]
            filters = [
                (
                    f["filter"],
                    SubscribeOptions(
                        qos=f["qos"],
                        noLocal=f.get("no_local", False),
                        retainAsPublished=f.get("retain_as_published", False),
                        retainHandling=f.get("retain_handling", 0),
                    ),
                )
                for f in command["filters"]
            ]
        else:
            filters = [(f["filter"], f["qos"]) for f in command["filters"]]
        _, mid = self.client.subscribe(filters, properties=properties)
        return {"reasons": [code.value for code in self._wait("suback", mid)]}

    def unsubscribe(self, command):
        _, mid = self.client.unsubscribe(command["filters"])
        codes = self._wait("unsuback", mid)
        return {"reasons": [code.value for code in codes] if self.version == 5 else []}

    def publish(self, command):
        info = self.client.publish(
            command["topic"],
            bytes.fromhex(command["payload"]),
            command["qos"],
            command["retain"],
            self._properties(PacketTypes.PUBLISH, command.get("properties", {})),
        )
        return {"reason": self._wait("puback", info.mid).value}

    def disconnect(self, _command):
        self.client.disconnect()
        self.client.loop_stop()

    def _properties(self, packet, wanted):
        if self.version != 5:
            return None
        properties = Properties(packet)
        names = {
            "content_type": "ContentType",
            "response_topic": "ResponseTopic",
            "expiry": "MessageExpiryInterval",
            "format": "PayloadFormatIndicator",
            "alias": "TopicAlias",
        }
        for ours, theirs in names.items():
            if ours in wanted:
                setattr(properties, theirs, wanted[ours])
        if "correlation" in wanted:
            properties.CorrelationData = bytes.fromhex(wanted["correlation"])
        if "user" in wanted:
            properties.UserProperty = [tuple(pair) for pair in wanted["user"]]
        return properties

    def _on_connect(self, _client, _userdata, flags, code, _properties):
        self._answer("connack", 0, (flags, code))

    def _on_disconnect(self, _client, _userdata, _flags, code, _properties):
        puppet.closed_event(self.name, code.value)

    def _on_message(self, _client, _userdata, message):
        properties = {}
        if self.version == 5:
            sent = message.properties
            correlation = getattr(sent, "CorrelationData", None)
            properties = {
                "user": getattr(sent, "UserProperty", None),
                "content_type": getattr(sent, "ContentType", None),
                "response_topic": getattr(sent, "ResponseTopic", None),
                "correlation": None if correlation is None else correlation.hex(),
                "expiry": getattr(sent, "MessageExpiryInterval", None),
                "format": getattr(sent, "PayloadFormatIndicator", None),
                "identifiers": getattr(sent, "SubscriptionIdentifier", None),
            }
        puppet.message_event(
            self.name, message.topic, message.payload, message.qos, bool(message.retain), properties, bool(message.dup)
        )

    def _answer(self, packet, mid, value):
        with self.arrived:
            self.answers[packet, mid] = value
            self.arrived.notify_all()

    def _wait(self, packet, mid):
        with self.arrived:
            if not self.arrived.wait_for(lambda: (packet, mid) in self.answers, puppet.PATIENCE_S):
                raise TimeoutError(f"no {packet}")
            value = self.answers.pop((packet, mid))
        if isinstance(value, Exception):
            raise value
        return value


puppet.run(Peer)
