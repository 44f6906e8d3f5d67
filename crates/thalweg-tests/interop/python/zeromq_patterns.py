"""Programs of ZeroMQ, unchanged, against the broker: pyzmq (libzmq), by themselves and with clients of other protocols.

`zeromq_patterns.py ZMTP MQTT AMQP STOMP COAP` takes the ports on 127.0.0.1, prints one line per pattern, and fails at the first
that does not get what it should.
"""

import asyncio
import sys
import threading
import time

import aiocoap
import paho.mqtt.client as mqtt
import pika
import stomp
import zmq

ZMTP, MQTT, AMQP, STOMP, COAP = (int(port) for port in sys.argv[1:6])
CONTEXT = zmq.Context()
# For what has no answer: a subscription of ZeroMQ.
SETTLED_S = 0.4


def socket(kind, *prefixes, **options):
    made = CONTEXT.socket(kind)
    made.linger, made.rcvtimeo = 500, 5000
    for name, value in options.items():
        setattr(made, name, value)
    made.connect(f"tcp://127.0.0.1:{ZMTP}")
    for prefix in prefixes:
        made.setsockopt(zmq.SUBSCRIBE, prefix)
    return made


def nothing_comes(made):
    made.rcvtimeo = 300
    try:
        raise AssertionError(made.recv_multipart())
    except zmq.Again:
        pass


def frames():
    sub, pub = socket(zmq.SUB, b""), socket(zmq.PUB)
    time.sleep(SETTLED_S)
    sent = [[b"a/b", b"1"], [b"a/b", b"1", b"", b"2"], [b"10001 20 C"], [b"x" * 300, b"y" * 100_000], [b"\xff+", b"\0"]]
    for message in sent:
        pub.send_multipart(message)
    assert [sub.recv_multipart() for _ in sent] == sent


def weather_server():
    wide, narrow, pub = socket(zmq.SUB, b"10001"), socket(zmq.SUB, b"10001 2"), socket(zmq.PUB)
    time.sleep(SETTLED_S)
    for text in ["10002 1 2", "10001 20 60", "10001 30 50"]:
        pub.send_string(text)
    assert [wide.recv_string() for _ in range(2)] == ["10001 20 60", "10001 30 50"]
    assert narrow.recv_string() == "10001 20 60"
    nothing_comes(narrow)


def task_ventilator():
    push = socket(zmq.PUSH)
    for number in range(100):
        push.send_multipart([str(number).encode(), b"job"])
    workers, poller, got = [socket(zmq.PULL), socket(zmq.PULL)], zmq.Poller(), set()
    for worker in workers:
        poller.register(worker, zmq.POLLIN)
    end = time.time() + 10
    while len(got) < 100 and time.time() < end:
        for worker, _ in poller.poll(200):
            number, job = worker.recv_multipart()
            assert job == b"job"
            got.add(int(number))
    assert got == set(range(100)), len(got)
    for worker in workers:
        worker.close(0)


def xpub_and_xsub():
    xsub, xpub = socket(zmq.XSUB), socket(zmq.XPUB)
    xsub.send(b"\x01top")
    assert xpub.recv() == b"\x01"
    time.sleep(SETTLED_S)
    xpub.send_multipart([b"topic", b"v"])
    assert xsub.recv_multipart() == [b"topic", b"v"]
    xsub.send(b"\x00top")
    time.sleep(SETTLED_S)
    xpub.send_multipart([b"topic", b"w"])
    nothing_comes(xsub)


def heart_beats():
    sub = socket(zmq.SUB, b"beat", heartbeat_ivl=100, heartbeat_timeout=500, heartbeat_ttl=1000)
    time.sleep(2.5)
    pub = socket(zmq.PUB)
    time.sleep(SETTLED_S)
    pub.send_multipart([b"beat", b"1"])
    assert sub.recv_multipart() == [b"beat", b"1"]


def slow_subscriber():
    slow = socket(zmq.SUB, b"slow", rcvhwm=10, rcvbuf=4096)
    quick, pub = socket(zmq.SUB, b"slow", rcvhwm=0), socket(zmq.PUB, sndhwm=0)
    time.sleep(SETTLED_S)

    def publish():
        for _ in range(20_000):
            pub.send_multipart([b"slow", b"z" * 10_000])

    publisher = threading.Thread(target=publish)
    publisher.start()
    for _ in range(20_000):
        quick.recv_multipart()
    publisher.join()
    slow.close(0)


def mqtt_both_ways():
    came, subscribed = [], threading.Event()
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
    client.on_message = lambda _c, _u, message: came.append((message.topic, message.payload))
    client.on_subscribe = lambda *_: subscribed.set()
    client.connect("127.0.0.1", MQTT)
    client.subscribe("mq/#", 1)
    client.loop_start()
    sub, pub = socket(zmq.SUB, b"mq/z"), socket(zmq.PUB)
    assert subscribed.wait(5)
    time.sleep(SETTLED_S)
    pub.send_multipart([b"mq/a", b"\0\xff", b"2"])
    client.publish("mq/zebra", b"\xff\0", qos=1).wait_for_publish(5)
    assert sub.recv_multipart() == [b"mq/zebra", b"\xff\0"]
    wait_for(lambda: ("mq/a", b"\0\xff2") in came)
    client.loop_stop()
    client.disconnect()


def amqp_both_ways():
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", AMQP))
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, "amq.topic", "am.*")
    sub, pub, pull = socket(zmq.SUB, b"am/z"), socket(zmq.PUB), socket(zmq.PULL)
    time.sleep(SETTLED_S)
    pub.send_multipart([b"am/a", b"\0\xff"])
    time.sleep(SETTLED_S)
    method, _, body = channel.basic_get(queue, auto_ack=True)
    assert (method.routing_key, body) == ("am.a", b"\0\xff")
    channel.basic_publish("amq.topic", "am.zebra", b"\xff\0")
    assert sub.recv_multipart() == [b"am/zebra", b"\xff\0"]
    channel.basic_publish("", "zmtp", b"job")
    assert pull.recv_multipart() == [b"job"]
    pull.close(0)
    push = socket(zmq.PUSH)
    push.send_multipart([b"two", b"frames"])
    wait_for(lambda: channel.queue_declare("zmtp", passive=True).method.message_count == 1)
    assert channel.basic_get("zmtp", auto_ack=True)[2] == b"twoframes"
    connection.close()


def stomp_both_ways():
    class Listener(stomp.ConnectionListener):
        came = []

        def on_message(self, frame):
            self.came.append((frame.headers["destination"], frame.body))

    connection = stomp.StompConnection12([("127.0.0.1", STOMP)], auto_decode=False)
    connection.set_listener("", Listener())
    connection.connect("guest", "guest", wait=True)
    connection.subscribe("/topic/st.*", "1")
    sub, pub = socket(zmq.SUB, b"st/z"), socket(zmq.PUB)
    time.sleep(SETTLED_S)
    pub.send_multipart([b"st/a", b"\0\xff"])
    connection.send("/topic/st.zebra", b"\xff\0")
    assert sub.recv_multipart() == [b"st/zebra", b"\xff\0"]
    wait_for(lambda: ("/topic/st.a", b"\0\xff") in Listener.came)
    connection.disconnect()


def coap_both_ways():
    async def run():
        context = await aiocoap.Context.create_client_context()
        base = f"coap://127.0.0.1:{COAP}/ps/data/co"
        sub, pub = socket(zmq.SUB, b"co/z"), socket(zmq.PUB)
        await asyncio.sleep(SETTLED_S)
        put = aiocoap.Message(code=aiocoap.PUT, uri=f"{base}/zebra", payload=b"\xff\0")
        assert (await context.request(put).response).code.is_successful()
        assert sub.recv_multipart() == [b"co/zebra", b"\xff\0"]
        request = context.request(aiocoap.Message(code=aiocoap.GET, uri=f"{base}/zebra", observe=0))
        assert (await request.response).payload == b"\xff\0"
        observed = request.observation.__aiter__()
        pub.send_multipart([b"co/zebra", b"\0\xff"])
        assert (await asyncio.wait_for(observed.__anext__(), 5)).payload == b"\0\xff"
        request.observation.cancel()
        await context.shutdown()

    asyncio.run(run())


def wait_for(is_so):
    end = time.time() + 5
    while not is_so():
        assert time.time() < end
        time.sleep(0.05)


for pattern in [
    frames,
    weather_server,
    task_ventilator,
    xpub_and_xsub,
    heart_beats,
    slow_subscriber,
    mqtt_both_ways,
    amqp_both_ways,
    stomp_both_ways,
    coap_both_ways,
]:
    pattern()
    print(pattern.__name__, flush=True)
CONTEXT.destroy(0)
