"""Programs of ZeroMQ, unchanged, against the broker: pyzmq (libzmq), by themselves and with clients of other protocols.

`zeromq_patterns.py ZMTP MQTT AMQP STOMP COAP CURVE TASKS RESULTS PUB REP VENTILATOR SINK` takes the ports on 127.0.0.1, the last
four of which the broker connects to, prints one line per pattern, and fails at the first that does not get what it should. Further
arguments are names of patterns: only these are run.
"""

import asyncio
import itertools
import os
import subprocess
import sys
import tempfile
import threading
import time

import aiocoap
import paho.mqtt.client as mqtt
import pika
import stomp
import zmq

ZMTP, MQTT, AMQP, STOMP, COAP, CURVE, TASKS, RESULTS, BOUND_PUB, BOUND_REP, VENTILATOR, SINK = map(int, sys.argv[1:13])
CONTEXT = zmq.Context()
# Longer than anything here takes; who waits for it has failed.
PATIENCE_S = 60
MARKS = itertools.count()


def socket(kind, *prefixes, port=ZMTP, **options):
    made = CONTEXT.socket(kind)
    made.linger, made.rcvtimeo = 500, 1000 * PATIENCE_S
    for name, value in options.items():
        setattr(made, name, value)
    made.connect(f"tcp://127.0.0.1:{port}")
    for prefix in prefixes:
        made.setsockopt(zmq.SUBSCRIBE, prefix)
    return made


def settled(publisher, *subscribers):
    """Returns when what these subscribers said before is in force. A subscription has no answer in ZeroMQ, so each subscribes to a
    mark besides, which is published until it comes back."""
    for subscriber in subscribers:
        mark = b"$mark/%d/" % next(MARKS)
        if subscriber.type == zmq.XSUB:
            subscriber.send(b"\x01" + mark)
        else:
            subscriber.setsockopt(zmq.SUBSCRIBE, mark)
        end = time.time() + PATIENCE_S
        publisher.send_multipart([mark, b""])
        while not subscriber.poll(20):
            assert time.time() < end
            publisher.send_multipart([mark, b""])
        publisher.send_multipart([mark, b"last"])
        while subscriber.recv_multipart() != [mark, b"last"]:
            pass


def nothing_comes(made):
    made.rcvtimeo = 300
    try:
        raise AssertionError(made.recv_multipart())
    except zmq.Again:
        pass


def frames():
    sub, pub = socket(zmq.SUB, b""), socket(zmq.PUB)
    settled(pub, sub)
    sent = [[b"a/b", b"1"], [b"a/b", b"1", b"", b"2"], [b"10001 20 C"], [b"x" * 300, b"y" * 100_000], [b"\xff+", b"\0"]]
    for message in sent:
        pub.send_multipart(message)
    assert [sub.recv_multipart() for _ in sent] == sent


def weather_server():
    wide, narrow, pub = socket(zmq.SUB, b"10001"), socket(zmq.SUB, b"10001 2"), socket(zmq.PUB)
    settled(pub, narrow, wide)
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
    end = time.time() + PATIENCE_S
    while len(got) < 100 and time.time() < end:
        for worker, _ in poller.poll(200):
            number, job = worker.recv_multipart()
            assert job == b"job"
            got.add(int(number))
    assert got == set(range(100)), len(got)
    for worker in workers:
        worker.close(0)


def ventilator_and_sink():
    """The zguide's taskvent and tasksink bind, and the broker connects to them; its taskwork connects to the broker, once for each
    queue."""
    ventilator, sink = CONTEXT.socket(zmq.PUSH), CONTEXT.socket(zmq.PULL)
    ventilator.linger, ventilator.sndtimeo, sink.rcvtimeo = 0, 60_000, 60_000
    ventilator.bind(f"tcp://127.0.0.1:{VENTILATOR}")
    sink.bind(f"tcp://127.0.0.1:{SINK}")
    start = socket(zmq.PUSH, port=SINK)
    start.send(b"0")
    assert sink.recv() == b"0"
    done = threading.Event()

    def taskwork():
        receiver, sender = socket(zmq.PULL, port=TASKS), socket(zmq.PUSH, port=RESULTS)
        while not done.is_set():
            if receiver.poll(50):
                time.sleep(int(receiver.recv()) * 0.001)
                sender.send(b"")
        receiver.close(0)
        sender.close(0)

    workers = [threading.Thread(target=taskwork) for _ in range(3)]
    for worker in workers:
        worker.start()
    for number in range(100):
        ventilator.send_string(f"{number % 5}")
    for _ in range(100):
        assert sink.recv() == b""
    done.set()
    for worker in workers:
        worker.join()
    nothing_comes(sink)
    for made in (ventilator, sink, start):
        made.close(0)


def xpub_and_xsub():
    xsub, xpub = socket(zmq.XSUB), socket(zmq.XPUB)
    xsub.send(b"\x01top")
    assert xpub.recv() == b"\x01"
    settled(xpub, xsub)
    xpub.send_multipart([b"topic", b"v"])
    assert xsub.recv_multipart() == [b"topic", b"v"]
    xsub.send(b"\x00top")
    settled(xpub, xsub)
    xpub.send_multipart([b"topic", b"w"])
    nothing_comes(xsub)


def heart_beats():
    end = time.time() + PATIENCE_S
    while True:
        sub = socket(zmq.SUB, b"beat", heartbeat_ivl=100, heartbeat_timeout=500, heartbeat_ttl=1000)
        # More than either side waits for a sign of life.
        if not sub.get_monitor_socket(zmq.EVENT_DISCONNECTED).poll(2500):
            break
        # A machine that is busy for half a second breaks a connection, a broker that is silent breaks each.
        assert time.time() < end
        sub.close(0)
    pub = socket(zmq.PUB)
    while not sub.poll(20):
        assert time.time() < end
        pub.send_multipart([b"beat", b"1"])
    assert sub.recv_multipart() == [b"beat", b"1"]


def slow_subscriber():
    slow = socket(zmq.SUB, b"slow", rcvhwm=10, rcvbuf=4096)
    quick, pub = socket(zmq.SUB, b"slow", rcvhwm=0), socket(zmq.PUB, sndhwm=0)
    settled(pub, slow, quick)

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
    assert subscribed.wait(PATIENCE_S)
    settled(pub, sub)
    pub.send_multipart([b"mq/a", b"\0\xff", b"2"])
    client.publish("mq/zebra", b"\xff\0", qos=1).wait_for_publish(PATIENCE_S)
    assert sub.recv_multipart() == [b"mq/zebra", b"\xff\0"]
    wait_for(lambda: ("mq/a", b"\0\xff2") in came)
    client.loop_stop()
    client.disconnect()


def taken(channel, queue):
    """The next message of a queue, once there is one."""
    end = time.time() + PATIENCE_S
    while (message := channel.basic_get(queue, auto_ack=True))[0] is None:
        assert time.time() < end
        time.sleep(0.05)
    return message


def amqp_both_ways():
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", AMQP))
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, "amq.topic", "am.*")
    sub, pub, pull = socket(zmq.SUB, b"am/z"), socket(zmq.PUB), socket(zmq.PULL)
    settled(pub, sub)
    pub.send_multipart([b"am/a", b"\0\xff"])
    method, _, body = taken(channel, queue)
    assert (method.routing_key, body) == ("am.a", b"\0\xff")
    channel.basic_publish("amq.topic", "am.zebra", b"\xff\0")
    assert sub.recv_multipart() == [b"am/zebra", b"\xff\0"]
    channel.basic_publish("", "zmtp", b"job")
    assert pull.recv_multipart() == [b"job"]
    pull.close(0)
    # What is pushed before the broker has seen the end may go to the socket that is closed.
    wait_for(lambda: channel.queue_declare("zmtp", passive=True).method.consumer_count == 0)
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
    settled(pub, sub)
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
        settled(pub, sub)
        put = aiocoap.Message(code=aiocoap.PUT, uri=f"{base}/zebra", payload=b"\xff\0")
        assert (await context.request(put).response).code.is_successful()
        assert sub.recv_multipart() == [b"co/zebra", b"\xff\0"]
        request = context.request(aiocoap.Message(code=aiocoap.GET, uri=f"{base}/zebra", observe=0))
        assert (await request.response).payload == b"\xff\0"
        observed = request.observation.__aiter__()
        pub.send_multipart([b"co/zebra", b"\0\xff"])
        assert (await asyncio.wait_for(observed.__anext__(), PATIENCE_S)).payload == b"\0\xff"
        request.observation.cancel()
        await context.shutdown()

    asyncio.run(run())


def request_reply_broker():
    """The zguide's rrclient and rrworker, without the broker between them."""

    def rrworker():
        worker = socket(zmq.REP)
        for _ in range(10):
            assert worker.recv() == b"Hello"
            worker.send(b"World")
        worker.close(500)

    # The client comes first: what it asks waits.
    client = socket(zmq.REQ)
    client.send(b"Hello")
    thread = threading.Thread(target=rrworker)
    thread.start()
    assert client.recv() == b"World"
    for _ in range(9):
        client.send(b"Hello")
        assert client.recv() == b"World"
    thread.join()


def lazy_pirate():
    """The zguide's lpclient: a REQ that is closed and made again when no answer comes in time. The server comes late."""
    client, server, done = socket(zmq.REQ), None, threading.Event()
    for sequence in range(3):
        request, retries = str(sequence).encode(), 4 * PATIENCE_S
        client.send(request)
        while not client.poll(250):
            retries -= 1
            assert retries
            client.close(0)
            if server is None and retries == 4 * PATIENCE_S - 2:
                server = threading.Thread(target=lpserver, args=[done])
                server.start()
            client = socket(zmq.REQ)
            client.send(request)
        assert client.recv() == request
    done.set()
    server.join()


def lpserver(done):
    worker = socket(zmq.REP)
    while not done.is_set():
        if worker.poll(50):
            worker.send(worker.recv())
    worker.close(0)


class MajorDomoWorker:
    """The zguide's mdwrkapi.py, without what it writes to the log."""

    # Three in the zguide; here a machine may be so busy that nobody is heard of for a second.
    HEARTBEAT_LIVENESS = 50

    def __init__(self, broker, service):
        self.broker, self.service, self.ctx = broker, service, zmq.Context()
        self.heartbeat, self.reconnect, self.timeout = 200, 200, 200
        self.expect_reply, self.reply_to, self.worker, self.heartbeats = False, None, None, 0
        self.poller = zmq.Poller()
        self.reconnect_to_broker()

    def reconnect_to_broker(self):
        if self.worker:
            self.poller.unregister(self.worker)
            self.worker.close()
        self.worker = self.ctx.socket(zmq.DEALER)
        self.worker.linger = 0
        self.worker.connect(self.broker)
        self.poller.register(self.worker, zmq.POLLIN)
        self.send_to_broker(b"\x01", self.service, [])
        self.liveness = self.HEARTBEAT_LIVENESS
        self.heartbeat_at = time.time() + 1e-3 * self.heartbeat

    def send_to_broker(self, command, option=None, msg=None):
        if msg is None:
            msg = []
        elif not isinstance(msg, list):
            msg = [msg]
        if option:
            msg = [option] + msg
        self.worker.send_multipart([b"", b"MDPW01", command] + msg)

    def recv(self, reply=None):
        assert reply is not None or not self.expect_reply
        if reply is not None:
            assert self.reply_to is not None
            self.send_to_broker(b"\x03", msg=[self.reply_to, b""] + reply)
        self.expect_reply = True
        while True:
            if self.poller.poll(self.timeout):
                msg = self.worker.recv_multipart()
                self.liveness = self.HEARTBEAT_LIVENESS
                assert len(msg) >= 3
                assert msg.pop(0) == b""
                assert msg.pop(0) == b"MDPW01"
                command = msg.pop(0)
                if command == b"\x02":
                    self.reply_to = msg.pop(0)
                    assert msg.pop(0) == b""
                    return msg
                self.heartbeats += command == b"\x04"
                if command == b"\x05":
                    self.reconnect_to_broker()
            else:
                self.liveness -= 1
                # The zguide reconnects here; a broker that lives must not let it come to that.
                assert self.liveness > 0
            if time.time() > self.heartbeat_at:
                self.send_to_broker(b"\x04")
                self.heartbeat_at = time.time() + 1e-3 * self.heartbeat


def majordomo():
    worker = MajorDomoWorker(f"tcp://127.0.0.1:{ZMTP}", b"echo")

    def mdworker():
        reply = None
        for _ in range(20):
            reply = worker.recv(reply)
        worker.send_to_broker(b"\x03", msg=[worker.reply_to, b""] + reply)
        worker.worker.close(500)

    thread = threading.Thread(target=mdworker)
    thread.start()
    wait_for(lambda: worker.heartbeats >= 3)
    # mdclient.py, by what mdcliapi.py sends and expects.
    client = socket(zmq.REQ)
    for service, code in [(b"echo", b"200"), (b"coffee", b"404")]:
        client.send_multipart([b"MDPC01", b"mmi.service", service])
        assert client.recv_multipart() == [b"MDPC01", b"mmi.service", code]
    for _ in range(20):
        client.send_multipart([b"MDPC01", b"echo", b"Hello world"])
        assert client.recv_multipart() == [b"MDPC01", b"echo", b"Hello world"]
    thread.join()


def espresso():
    """The zguide's publisher and subscriber threads; in place of its proxy and listener the broker and one more subscriber."""
    tap, subscriber = socket(zmq.SUB, b""), socket(zmq.SUB, b"A", b"B")
    publisher = socket(zmq.PUB)
    settled(publisher, subscriber, tap)
    sent = [f"{letter}-{number:05d}".encode() for number in range(20) for letter in "ABCJ"]
    for text in sent:
        publisher.send(text)
    wanted = [text for text in sent if text[:1] in b"AB"]
    assert [subscriber.recv() for _ in wanted] == wanted
    tapped = iter(tap.recv_multipart, None)
    tapped = (frames[0] for frames in tapped if len(frames) == 1 and frames[0][1:2] == b"-")
    assert [next(tapped) for _ in sent] == sent


def last_value_cache():
    """The zguide's pathopub and pathosub; the broker keeps last values, as `zmtp.retain` says."""
    publisher, witness = socket(zmq.PUB), socket(zmq.SUB)
    settled(publisher, witness)
    for topic in range(1000):
        publisher.send_multipart([b"lvc/%03d" % topic, b"Save Roger"])
    settled(publisher, witness)
    subscriber = socket(zmq.SUB, b"lvc/042")
    assert subscriber.recv_multipart() == [b"lvc/042", b"Save Roger"]
    publisher.send_multipart([b"lvc/042", b"Off with his head!"])
    assert subscriber.recv_multipart() == [b"lvc/042", b"Off with his head!"]
    nothing_comes(subscriber)


def requests_of_mqtt_and_coap():
    done, answers = threading.Event(), []

    def server():
        router = socket(zmq.ROUTER, identity=b"plant/pump")
        while not done.is_set():
            if router.poll(100):
                to, empty, question = router.recv_multipart()
                router.send_multipart([to, empty, question + b"!"])
        router.close(0)

    def on_message(client, _, message):
        if message.topic == "answers":
            answers.append((message.payload, message.properties.CorrelationData))
            return
        properties = mqtt.Properties(mqtt.PacketTypes.PUBLISH)
        properties.CorrelationData = message.properties.CorrelationData
        client.publish(message.properties.ResponseTopic, message.payload.upper(), 1, properties=properties)

    thread = threading.Thread(target=server)
    thread.start()
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    client.on_message = on_message
    client.connect("127.0.0.1", MQTT)
    client.loop_start()
    client.subscribe([("answers", 1), ("shout", 1)])
    asks = mqtt.Properties(mqtt.PacketTypes.PUBLISH)
    asks.ResponseTopic, asks.CorrelationData = "answers", b"\x00\x07"
    # Where no server is yet, nobody hears a request.
    wait_for(lambda: answers or client.publish("plant/pump", b"on", 1, properties=asks) is None)
    assert set(answers) == {(b"on!", b"\x00\x07")}, answers

    async def ask():
        context = await aiocoap.Context.create_client_context()
        uri = f"coap://127.0.0.1:{COAP}/rpc/plant/pump"
        request = aiocoap.Message(code=aiocoap.POST, uri=uri, payload=b"off")
        assert (await asyncio.wait_for(context.request(request).response, PATIENCE_S)).payload == b"off!"
        await context.shutdown()

    asyncio.run(ask())
    requester = socket(zmq.REQ)
    requester.send_multipart([b"shout", b"hello"])
    assert requester.recv_multipart() == [b"HELLO"]
    done.set()
    thread.join()
    client.loop_stop()
    client.disconnect()


def requests_of_amqp():
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", AMQP))
    channel = connection.channel()
    channel.queue_declare("rpc_queue")
    channel.queue_purge("rpc_queue")
    requester = socket(zmq.REQ)
    requester.send_multipart([b"$q/rpc_queue", b"30"])
    _, properties, body = taken(channel, "rpc_queue")
    # RabbitMQ's tutorial six.
    answer = pika.BasicProperties(correlation_id=properties.correlation_id)
    channel.basic_publish("", properties.reply_to, str(int(body) + 1).encode(), answer)
    assert requester.recv() == b"31"
    connection.close()


# Those of zmq_curve(7).
SERVER_KEY = b"rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"
CLIENT_KEYS = (b"Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID", b"D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs")


def secure(kind, keys, *prefixes):
    made = CONTEXT.socket(kind)
    made.linger, made.rcvtimeo = 500, 1000 * PATIENCE_S
    made.curve_serverkey, (made.curve_publickey, made.curve_secretkey) = SERVER_KEY, keys
    made.connect(f"tcp://127.0.0.1:{CURVE}")
    for prefix in prefixes:
        made.setsockopt(zmq.SUBSCRIBE, prefix)
    return made


def curve():
    stranger = secure(zmq.SUB, zmq.curve_keypair(), b"")
    sub, pub = secure(zmq.SUB, CLIENT_KEYS, b"curve"), secure(zmq.PUB, CLIENT_KEYS)
    settled(pub, sub)
    for message in [[b"curve/1", b"x"], [b"curve/2", b"y" * 300_000, b""]]:
        pub.send_multipart(message)
        assert sub.recv_multipart() == message
    nothing_comes(stranger)


def curve_on_the_command_line():
    sub, pub = secure(zmq.SUB, CLIENT_KEYS, b"line/2"), secure(zmq.PUB, CLIENT_KEYS)
    settled(pub, sub)
    with tempfile.NamedTemporaryFile() as secret:
        secret.write(CLIENT_KEYS[1])
        secret.flush()
        keys = ["--curve-server", SERVER_KEY.decode(), "--curve-secret-file", secret.name]
        place = f"zmtp://127.0.0.1:{CURVE}/line"
        program = os.environ["THALWEG_BIN"]
        command = [program, "sub", f"{place}/1", "--count", "1", *keys]
        listener = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        end = time.time() + PATIENCE_S
        while listener.poll() is None:
            assert time.time() < end
            pub.send_multipart([b"line/1", b"heard"])
            time.sleep(0.05)
        assert "heard" in listener.communicate()[0]
        subprocess.run([program, "pub", f"{place}/2", "-m", "said", *keys], check=True)
        assert sub.recv_multipart() == [b"line/2", b"said"]


def is_bound(made, port):
    try:
        made.bind(f"tcp://127.0.0.1:{port}")
        return True
    except zmq.ZMQError:
        return False


def sockets_that_bind():
    sub = socket(zmq.SUB, b"bound/")
    for _ in range(2):
        pub, rep = CONTEXT.socket(zmq.PUB), CONTEXT.socket(zmq.REP)
        pub.linger = rep.linger = 0
        # libzmq closes what was bound before in the background.
        wait_for(lambda: is_bound(pub, BOUND_PUB))
        wait_for(lambda: is_bound(rep, BOUND_REP))
        sub.rcvtimeo, end = 100, time.time() + PATIENCE_S
        while True:
            pub.send_multipart([b"bound/1", b"x"])
            try:
                assert sub.recv_multipart() == [b"bound/1", b"x"]
                break
            except zmq.Again:
                assert time.time() < end
        # Where no server is yet, nobody hears a request, so it is asked until there is an answer.
        requester, end = None, time.time() + PATIENCE_S
        while requester is None or not requester.poll(0):
            assert time.time() < end
            if requester:
                requester.close(0)
            requester = socket(zmq.REQ)
            requester.send_multipart([b"calc", b"2"])
            while not requester.poll(0) and rep.poll(500):
                assert rep.recv() == b"2"
                rep.send(b"4")
                requester.poll(500)
        assert requester.recv() == b"4"
        pub.close()
        rep.close()


def wait_for(is_so):
    end = time.time() + PATIENCE_S
    while not is_so():
        assert time.time() < end
        time.sleep(0.05)


for pattern in [
    frames,
    weather_server,
    task_ventilator,
    ventilator_and_sink,
    xpub_and_xsub,
    heart_beats,
    slow_subscriber,
    mqtt_both_ways,
    amqp_both_ways,
    stomp_both_ways,
    coap_both_ways,
    request_reply_broker,
    lazy_pirate,
    majordomo,
    espresso,
    last_value_cache,
    requests_of_mqtt_and_coap,
    requests_of_amqp,
    curve,
    curve_on_the_command_line,
    sockets_that_bind,
]:
    if sys.argv[13:] and pattern.__name__ not in sys.argv[13:]:
        continue
    pattern()
    print(pattern.__name__, flush=True)
CONTEXT.destroy(0)
