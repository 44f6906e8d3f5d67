"""One predicate, asked by clients of every protocol about messages of every protocol: each gets the same ones.

`filter_patterns.py MQTT AMQP STOMP COAP ZMTP XMPP [DOMAIN PEER]` takes the ports on 127.0.0.1, prints a line per publisher and subscriber, and fails
if one gets other messages than the predicate says (`../../tests/all/interop/filters.rs`). MQTT, AMQP and STOMP have headers, so theirs
pass by colour, too; the others' have a payload only. Members of groups have the predicate, too, each beside a member that takes nothing,
also of groups that take from a queue.
With a domain of DDS and the program of a participant (`../cpp/fastdds_peer.cpp`) that is a seventh publisher and subscriber
(`thalweg-dds/tests/bridge/filters.rs`). Its samples have no headers, so it asks for what the predicate says of payloads.
"""

import asyncio
import json
import os
import queue
import random
import subprocess
import sys
import threading
import time
import traceback

import aiocoap
import paho.mqtt.client as mqtt
import pika
import stomp
import xmpp_client
import zmq
from paho.mqtt.packettypes import PacketTypes
from xmpp_client import SERVICE, element_of

MQTT, AMQP, STOMP, COAP, ZMTP, XMPP = map(int, sys.argv[1:7])
PATIENCE_S = 60
FILTER = "(payload.temp BETWEEN 10 AND 24 AND payload.at.site LIKE 'n%') OR colour = 'red'"
FILTER_OF_DDS = "temp BETWEEN 10 AND 24 AND at.site LIKE 'n%'"
MARK = {"name": "mark", "temp": 10, "at": {"site": "n"}}
COUNT = 20


class Sample:
    def __init__(self, source, number, dice):
        self.temp, self.site = dice.randrange(35), dice.choice(["north", "nook", "south"])
        self.colour = dice.choice(["red", "green", None]) if source in ("mqtt", "amqp", "stomp") else None
        self.payload = json.dumps({"name": f"{source} {number}", "temp": self.temp, "at": {"site": self.site}}).encode()

    def passes(self, has_headers=True):
        return 10 <= self.temp <= 24 and self.site.startswith("n") or has_headers and self.colour == "red"


class Client:
    """What the payloads say that a subscriber got comes into `got`, from whatever thread."""

    has_headers = True

    def __init__(self):
        self.got = queue.Queue()
        self.is_marked = threading.Event()

    def came(self, payload):
        name = json.loads(payload)["name"]
        if name == MARK["name"]:
            self.is_marked.set()
        else:
            self.got.put(name)


class Mqtt(Client):
    def __init__(self, topic="f/+", predicate=FILTER):
        super().__init__()
        ready = threading.Event()
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        self.client.on_message = lambda _c, _u, message: self.came(message.payload)
        self.client.on_subscribe = lambda _c, _u, _id, codes, _p: [code.is_failure for code in codes] == [False] and ready.set()
        self.client.connect("127.0.0.1", MQTT)
        self.client.loop_start()
        properties = mqtt.Properties(PacketTypes.SUBSCRIBE)
        properties.UserProperty = ("filter", predicate)
        self.client.subscribe(topic, options=mqtt.SubscribeOptions(qos=1), properties=properties)
        assert ready.wait(PATIENCE_S)

    def publish(self, sample):
        properties = mqtt.Properties(PacketTypes.PUBLISH)
        if sample.colour:
            properties.UserProperty = ("colour", sample.colour)
        self.client.publish("f/x", sample.payload, qos=1, properties=properties).wait_for_publish(PATIENCE_S)


class Amqp(Client):
    """The queue is bound with the predicate, or its consumer has it, or a member of a group."""

    def __init__(self, of_consumer, group=None):
        super().__init__()
        self.connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", AMQP))
        channel = self.connection.channel()
        name = group or channel.queue_declare("", exclusive=True).method.queue
        arguments = [{}, {"x-filter": FILTER}]
        if not group:
            channel.queue_bind(name, "amq.topic", "f.*", arguments=arguments[not of_consumer])
        consumer = arguments[of_consumer]
        channel.basic_consume(name, lambda _c, _m, _p, body: self.came(body), auto_ack=True, arguments=consumer)
        self.publisher = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", AMQP)).channel()
        self.publisher.confirm_delivery()
        threading.Thread(target=channel.start_consuming, daemon=True).start()

    def publish(self, sample):
        headers = {"colour": sample.colour} if sample.colour else {}
        properties = pika.BasicProperties(headers=headers, delivery_mode=2)
        self.publisher.basic_publish("amq.topic", "f.x", sample.payload, properties)


class Stomp(Client, stomp.ConnectionListener):
    def __init__(self, destination="/topic/f.*"):
        super().__init__()
        self.receipts = queue.Queue()
        self.connection = stomp.StompConnection12([("127.0.0.1", STOMP)], auto_decode=False)
        self.connection.set_listener("", self)
        self.connection.connect("guest", "guest", wait=True)
        self.connection.subscribe(destination, "1", headers={"selector": FILTER, "receipt": "subscribed"})
        assert self.receipts.get(timeout=PATIENCE_S) == "subscribed"

    def on_message(self, frame):
        self.came(frame.body)

    def on_receipt(self, frame):
        self.receipts.put(frame.headers["receipt-id"])

    def publish(self, sample):
        headers = {"receipt": "sent"} | ({"colour": sample.colour} if sample.colour else {})
        self.connection.send("/topic/f.x", sample.payload, headers=headers)
        assert self.receipts.get(timeout=PATIENCE_S) == "sent"


class Zmtp(Client):
    def __init__(self):
        super().__init__()
        context = zmq.Context.instance()
        self.pub, self.sub = context.socket(zmq.PUB), context.socket(zmq.XSUB)
        for socket in (self.pub, self.sub):
            socket.linger = 0
            socket.connect(f"tcp://127.0.0.1:{ZMTP}")
        self.sub.send(b"\x01f/\0" + FILTER.encode())
        self.sub.send(b"\x01$mark/")
        self.settle(b"subscribed")
        threading.Thread(target=self.listen, daemon=True).start()

    def settle(self, mark):
        """Subscriptions have no answer in ZeroMQ: what comes back after them says that they are in force."""
        while not self.sub.poll(20):
            self.pub.send_multipart([b"$mark/", mark])

    def listen(self):
        while True:
            address, payload = self.sub.recv_multipart()
            if address == b"f/x":
                self.came(payload)

    def publish(self, sample):
        self.pub.send_multipart([b"f/x", sample.payload])


class Asked(Client):
    """A client whose library needs an event loop, which a thread has."""

    def __init__(self):
        super().__init__()
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.await_(self.start())

    def await_(self, coroutine):
        return asyncio.run_coroutine_threadsafe(asyncio.wait_for(coroutine, PATIENCE_S), self.loop).result()

    def publish(self, sample):
        self.await_(self.send(sample.payload))


class Coap(Asked):
    async def start(self):
        self.context = await aiocoap.Context.create_client_context()
        self.uri = f"coap+tcp://127.0.0.1:{COAP}/ps/data/f/x"
        message = aiocoap.Message(code=aiocoap.GET, uri=self.uri, observe=0)
        # A queue of its own, so that each value comes and not the newest only.
        message.opt.uri_query = ("queue=200", f"filter={FILTER}")
        # By blocks, or by iterating, the library gives the newest only of what came meanwhile.
        self.request = self.context.request(message, handle_blockwise=False)
        answer = await self.request.response
        assert answer.opt.observe is not None, (answer.code, answer.payload)
        self.request.observation.register_callback(lambda notification: self.came(notification.payload))

    async def send(self, payload):
        put = aiocoap.Message(code=aiocoap.PUT, uri=self.uri, payload=payload)
        answer = await self.context.request(put).response
        assert answer.code.is_successful(), answer.code


class Xmpp(Asked):
    def __init__(self, node="f/x"):
        self.node = node
        super().__init__()

    async def start(self):
        self.client = client = xmpp_client.Client(lambda _message, _node, item: self.came(item["payload"].text))
        await client.log_in(XMPP, PATIENCE_S)
        options = client.plugin["xep_0004"].make_form(ftype="submit")
        options.add_field(var="FORM_TYPE", ftype="hidden", value="http://jabber.org/protocol/pubsub#subscribe_options")
        options.add_field(var="x-filter", value=FILTER)
        await client.pubsub.subscribe(SERVICE, self.node, options=options)

    async def send(self, payload):
        await self.client.pubsub.publish(SERVICE, "f/x", payload=element_of(payload))


class Dds(Client):
    """A content-filtered topic, and a writer of the same topic."""

    has_headers = False

    def __init__(self, domain, program):
        super().__init__()
        self.answers = queue.Queue()
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.peer = subprocess.Popen([program, domain], **pipes)
        threading.Thread(target=self.listen, daemon=True).start()
        qos = ["reliable", "keep-all", "partition:f"]
        assert self.does("read", "reader", qos=qos, filter=FILTER_OF_DDS) == 0
        assert self.does("offer", "writer", qos=qos) == 0
        # Each has the other and the bridge as its opposite.
        until = time.monotonic() + PATIENCE_S
        while [self.does("matched", name) for name in ("reader", "writer")] != [2, 2]:
            assert time.monotonic() < until
            time.sleep(0.02)

    def settle(self, publisher):
        """The bridge subscribes when it has found the reader: what comes back after that says that it has."""
        mark = Sample("mark", 0, random)
        mark.payload, mark.colour = json.dumps(MARK).encode(), None
        until = time.monotonic() + PATIENCE_S
        while not self.is_marked.wait(0.05):
            assert time.monotonic() < until
            publisher.publish(mark)

    def listen(self):
        for line in self.peer.stdout:
            said = json.loads(line)
            if "done" in said:
                self.answers.put(said["done"])
            else:
                self.came(json.dumps(said["value"]))

    def does(self, what, name, **more):
        line = {"do": what, "topic": "x", "type": "Room", "as": name} | more
        self.peer.stdin.write(json.dumps(line) + "\n")
        self.peer.stdin.flush()
        return self.answers.get(timeout=PATIENCE_S)

    def publish(self, sample):
        assert self.does("write", "writer", value=json.loads(sample.payload)) == 0


def bind_queue(name):
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", AMQP))
    channel = connection.channel()
    channel.queue_declare(name, durable=True)
    channel.queue_bind(name, "amq.topic", "f.*")
    connection.close()


def main():
    for name in ("of_mqtt", "of_xmpp"):
        bind_queue(name)
    clients = {
        "mqtt": Mqtt(), "amqp": Amqp(of_consumer=False), "stomp": Stomp(), "coap": Coap(), "zmtp": Zmtp(), "xmpp": Xmpp(),
    }
    if sys.argv[7:]:
        clients["dds"] = Dds(*sys.argv[7:9])
        clients["dds"].settle(clients["mqtt"])
    others = [Mqtt(f"$share/{group}/f/+", "colour = 'none'") for group in ("m", "a", "s")]
    others.append(Mqtt("$share/q/$q/of_mqtt", "colour = 'none'"))
    subscribers = clients | {
        "consumer of amqp": Amqp(of_consumer=True),
        "member of mqtt": Mqtt("$share/m/f/+"),
        "member of amqp": Amqp(of_consumer=True, group="$g/a/f/+"),
        "member of stomp": Stomp("/amq/queue/$g/s/f/+"),
        "mqtt from a queue": Mqtt("$share/q/$q/of_mqtt"),
        "xmpp from a queue": Xmpp("$q/of_xmpp"),
    }
    dice = random.Random(23)
    for source, publisher in clients.items():
        samples = [Sample(source, number, dice) for number in range(COUNT)]
        wanted = {
            has_headers: [f"{source} {number}" for number, sample in enumerate(samples) if sample.passes(has_headers)]
            for has_headers in (True, False)
        }
        assert all(0 < len(it) < COUNT - 1 for it in wanted.values()), wanted
        # The last one passes, so what comes before it is all that comes.
        last = Sample(source, COUNT, dice)
        last.payload = json.dumps({"name": "last", "temp": 10, "at": {"site": "n"}}).encode()
        for sample in [*samples, last]:
            publisher.publish(sample)
        for name, subscriber in subscribers.items():
            got = list(iter(lambda: subscriber.got.get(timeout=PATIENCE_S), "last"))
            expected = wanted[subscriber.has_headers]
            assert got == expected, f"{source} to {name}: got {got}, not {expected}"
            print(f"{source} to {name}: {len(got)} of {COUNT}", flush=True)
    assert all(other.got.empty() for other in others)
    if "dds" in clients:
        clients["dds"].peer.kill()


status = 0
try:
    main()
except BaseException:
    traceback.print_exc()
    status = 1
sys.stdout.flush()
# Threads of the libraries would be waited for.
os._exit(status)
