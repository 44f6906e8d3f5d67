"""A receiver of a multicast group by paho, stomp.py and `cryptography`, written after docs/multicast.md.

`multicast_receiver.py GROUP MQTT STOMP` takes the ports on 127.0.0.1 of a broker that sends `plant/+/pose` to this group on the loopback interface.
It loses a third of all datagrams on purpose, asks for them by MQTT and by STOMP in turn, prints how many each has answered, and fails if
a message is missing, twice or out of order (`../../tests/all/interop/multicast.rs`).
"""

import base64
import json
import queue
import random
import socket
import struct
import sys
import time

import paho.mqtt.client as mqtt
import stomp
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from paho.mqtt.packettypes import PacketTypes

GROUP, MQTT, STOMP = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
PATIENCE_S = 60
ASK_AFTER_S = 0.1
HEADER, DATA, HEARTBEAT, NONE_BEGINS = struct.Struct(">2sBBQQ"), 1, 2, 0xFFFF
EXPECTED = [f"{number} {'x' * (number * 37 % 3000)}".encode() for number in range(300)]


class ByMqtt:
    """Subscribes to the description, and publishes what the receiver is to have."""

    def __init__(self):
        self.descriptions, self.answers = queue.Queue(), queue.Queue()
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        self.client.on_message = self.on_message
        self.client.on_connect = lambda client, *_: client.subscribe([(f"$multicast/{GROUP}", qos(1)), (self.reply_to, qos(0))])
        self.client.connect("127.0.0.1", MQTT)
        self.client.loop_start()

    reply_to = f"$multicast/{GROUP}/repair/foreign"

    def on_message(self, client, userdata, message):
        (self.answers if message.topic == self.reply_to else self.descriptions).put(message.payload)

    def ask(self, address, request):
        properties = mqtt.Properties(PacketTypes.PUBLISH)
        properties.ResponseTopic = self.reply_to
        self.client.publish(address, request, properties=properties)


class ByStomp(stomp.ConnectionListener):
    def __init__(self):
        self.answers = queue.Queue()
        self.connection = stomp.StompConnection12([("127.0.0.1", STOMP)], auto_decode=False)
        self.connection.set_listener("", self)
        self.connection.connect("guest", "guest", wait=True)

    def on_message(self, frame):
        self.answers.put(frame.body)

    def ask(self, address, request):
        self.connection.send("/topic/" + address.replace("/", "."), request, headers={"reply-to": "/temp-queue/answers"})


def qos(level):
    return mqtt.SubscribeOptions(qos=level)


class Receiver:
    """Pieces of the stream by their numbers."""

    def __init__(self, description):
        self.key = ChaCha20Poly1305(base64.b64decode(description["key"]))
        self.epoch = int(description["epoch"], 16)
        self.begin = self.end = None
        self.pieces = {}

    def on_datagram(self, datagram):
        magic, version, kind, epoch, number = HEADER.unpack_from(datagram)
        assert (magic, version, epoch) == (b"TM", 1, self.epoch), datagram[:20]
        nonce = struct.pack(">B3xQ", kind, number)
        text = self.key.decrypt(nonce, datagram[HEADER.size :], datagram[: HEADER.size])
        if kind == HEARTBEAT:
            following, oldest, unsent = struct.unpack(">QQQ", text)
            assert oldest == 0 and unsent == 0
            if self.begin is None:
                self.begin = self.end = following
        else:
            assert kind == DATA
            following = number + 1
            if self.begin is not None and number >= self.begin:
                self.pieces[number] = text[2:], struct.unpack_from(">H", text)[0]
        if self.begin is not None:
            self.end = max(self.end, following)

    def missing(self):
        """Ranges, both ends included."""
        ranges = []
        for number in range(self.begin, self.end):
            if number not in self.pieces:
                if ranges and ranges[-1][1] == number - 1:
                    ranges[-1][1] = number
                else:
                    ranges.append([number, number])
        return ranges[:64]

    def payloads(self):
        """Of the stream, of which nothing is missing."""
        stream, begins = bytearray(), set()
        for number in range(self.begin, self.end):
            piece, first = self.pieces[number]
            if first != NONE_BEGINS:
                begins.add(len(stream) + first)
            stream += piece
        at, found, starts = 0, [], set()
        while (packet := publish_at(stream, at)) is not None:
            starts.add(at)
            at, topic, payload = packet
            assert topic == b"plant/7/pose", topic
            found.append(bytes(payload))
        assert begins - {at} <= starts, "a packet begins where a datagram says so"
        return found


def publish_at(stream, at):
    """A whole PUBLISH of MQTT 5 at QoS 0: where it ends, its topic and its payload."""
    try:
        assert stream[at] & 0xF6 == 0x30, stream[at]
        length, at = number_at(stream, at + 1)
        if at + length > len(stream):
            return None
    except IndexError:
        return None
    end = at + length
    [topic_length] = struct.unpack_from(">H", stream, at)
    topic, at = stream[at + 2 : at + 2 + topic_length], at + 2 + topic_length
    properties, at = number_at(stream, at)
    return end, topic, stream[at + properties : end]


def number_at(stream, at):
    value = shift = 0
    while True:
        byte, at = stream[at], at + 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def datagrams_of(answer):
    at = 0
    while at < len(answer):
        [length] = struct.unpack_from(">H", answer, at)
        yield answer[at + 2 : at + 2 + length]
        at += 2 + length


def main():
    ways = {"mqtt": ByMqtt(), "stomp": ByStomp()}
    description = json.loads(ways["mqtt"].descriptions.get(timeout=PATIENCE_S))
    assert description["version"] == 1 and description["filters"] == ["plant/+/pose"], description
    receiver = Receiver(description)
    joined = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    joined.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    joined.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    joined.bind((description["group"], description["port"]))
    membership = socket.inet_aton(description["group"]) + socket.inet_aton("127.0.0.1")
    joined.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
    joined.settimeout(ASK_AFTER_S)

    dice, lost = random.Random(7), 0
    answered, asked, ask_at, is_published = dict.fromkeys(ways, 0), 0, 0.0, False
    until = time.monotonic() + PATIENCE_S
    while True:
        assert time.monotonic() < until, (len(receiver.pieces), receiver.missing(), lost, answered)
        try:
            datagram = joined.recv(65536)
        except TimeoutError:
            if is_published and not receiver.missing() and len(receiver.payloads()) >= len(EXPECTED):
                break
        else:
            # The first heartbeat says where to begin.
            if receiver.begin is None or dice.randrange(3):
                receiver.on_datagram(datagram)
            else:
                lost += 1
        if receiver.begin is not None and not is_published:
            is_published = True
            try:
                receiver.on_datagram(HEADER.pack(b"TM", 1, DATA, receiver.epoch, 7) + bytes(40))
                raise AssertionError("who has no key forges nothing")
            except InvalidTag:
                pass
            for payload in EXPECTED:
                ways["mqtt"].client.publish("plant/7/pose", payload)
        if is_published and time.monotonic() > ask_at and (missing := receiver.missing()):
            name = list(ways)[asked % len(ways)]
            asked, ask_at = asked + 1, time.monotonic() + ASK_AFTER_S
            ways[name].ask(description["repair"], json.dumps({"epoch": description["epoch"], "ranges": missing}))
            # Its datagrams are as those of the group.
            for datagram in datagrams_of(ways[name].answers.get(timeout=PATIENCE_S)):
                receiver.on_datagram(datagram)
                answered[name] += 1
    assert receiver.payloads() == EXPECTED
    assert lost > 0
    for name, count in answered.items():
        print(name, count)


main()
