"""Publishers and subscribers written against stock libraries: paho-mqtt, pika, stomp.py, aiocoap.

The laboratory starts this and talks with it in lines (drivers/program.rs says which). Times are of CLOCK_MONOTONIC, in
nanoseconds. What is sent and received is written down in memory and told ten times a second by a thread of its own.
"""

import asyncio
import collections
import json
import socket
import struct
import sys
import threading
import time
import warnings

# What libraries think of their own interfaces is for others.
warnings.simplefilter("ignore")
PATIENCE_S = 30
# Notes and faults are no place for messages.
ROW_MAX = 300


class Rows:
    """What happened, in lines."""

    def __init__(self):
        self.rows, self.lock = collections.deque(), threading.Lock()
        threading.Thread(target=self.tell, daemon=True).start()

    def add(self, row):
        self.rows.append(row[:ROW_MAX])

    def flush(self):
        with self.lock:
            lines = []
            while self.rows:
                lines.append(self.rows.popleft())
            if lines:
                sys.stdout.write("\n".join(lines) + "\n")
            sys.stdout.flush()

    def tell(self):
        while True:
            time.sleep(0.1)
            self.flush()


# Messages of a flood under way at once: what came in the last quarter of a second, from the first to the last of these, and
# the second before anything is known.
FLOOD_WINDOW = (20, 100, 1000)
FLOOD_AHEAD_NS = 250_000_000


class Job:
    """What is to be done, and everything that drivers share."""

    def __init__(self, words, rows):
        self.cell, self.run, self.login = words["cell"], words["run"], words.get("login")
        self.topics, self.rows = words["topics"], rows
        self.flow_of = {topic: flow for flow, topic in enumerate(self.topics)}
        self.publish_at, self.subscribe_at = (place(words[key]) for key in ("publish_at", "subscribe_at"))
        self.copies = max(1, self.cell["fan_out"])
        self.leg, self.taking = self.cell["publish"], self.cell["subscribe"]
        self.kind, = self.cell["workload"]
        with open(words["sizes"]) as file:
            self.sizes = [int(line) for line in file]
        with open(words["schedule"]) as file:
            self.schedule = [tuple(int(number) for number in line.split(",")) for line in file if line.strip()]
        self.stop, self.under_way = threading.Event(), threading.Condition()
        self.unsettled, self.through, self.all_through = 0, collections.Counter(), 0

    def size(self, flow, seq):
        """Where there is no schedule: flows begin at places of their own of one list."""
        return self.sizes[(7919 * flow + seq) % len(self.sizes)]

    def payload(self, flow, seq, size):
        if self.kind == "json":
            text = '{"m":"%08x%08x","v":"' % (flow, seq)
            return (text + "x" * (size - len(text) - 2) + '"}').encode()
        if size < 8:
            return struct.pack(">I", seq) + b"x" * (size - 4)
        return struct.pack(">II", flow, seq) + b"x" * (size - 8)

    def seq(self, payload):
        if self.kind == "json":
            return int(payload[14:22], 16)
        return struct.unpack_from(">I", payload, 4 if len(payload) >= 8 else 0)[0]

    def received(self, copy, flow, payload):
        now = time.monotonic_ns()
        if len(payload) < 4:
            return
        try:
            seq = self.seq(payload)
        except (ValueError, struct.error):
            self.rows.add("n something else came on the topic of flow %d" % flow)
            return
        self.rows.add("r %d %d %d %d" % (copy, flow, seq, now))
        if copy == 0 and self.leg["qos"] == 0:
            self.is_through(flow)

    def acknowledged(self, flow, seq):
        self.rows.add("a %d %d" % (flow, seq))
        with self.under_way:
            self.unsettled -= 1
        self.is_through(flow)

    def is_through(self, flow):
        with self.under_way:
            self.through[flow] += 1
            self.all_through += 1
            self.under_way.notify_all()

    def has_room(self):
        """Waits for room in the window; false if everything is over."""
        if self.leg["qos"] == 0:
            return not self.stop.is_set()
        with self.under_way:
            while self.unsettled >= self.leg["window"] and not self.stop.is_set():
                self.under_way.wait(0.05)
            self.unsettled += 1
        return not self.stop.is_set()

    def give(self, driver, flow, seq, size):
        tried = time.monotonic_ns()
        if self.has_room():
            payload, at = self.payload(flow, seq, size), time.monotonic_ns()
            # Before: some libraries come back when the broker has answered only.
            driver.publish(flow, seq, payload)
            self.rows.add("s %d %d %d %d" % (flow, seq, tried, at))

    def play(self, driver, begin):
        (kind, load), = self.cell["load"].items()
        phases = self.cell["phases"]
        end = begin + phases["warmup_ns"] + phases["measure_ns"]
        if kind in ("open", "replay"):
            for offset, flow, seq, size in self.schedule:
                if not self.sleep_until(driver, begin + offset):
                    return
                self.give(driver, flow, seq, size)
            return
        flows, seqs = range(len(self.topics)), collections.Counter()
        self.sleep_until(driver, begin)
        if kind == "flood":
            # Some libraries take everything into a queue of their own: what is under way is bounded here.
            least, window, most = FLOOD_WINDOW
            came, since = 0, begin
            while self.has_come(driver, sum(seqs.values()) - window, end):
                now, through = time.monotonic_ns(), self.all_through
                if now - since >= FLOOD_AHEAD_NS:
                    window = min(max((through - came) * FLOOD_AHEAD_NS // (now - since), least), most)
                    came, since = through, now
                for flow in flows:
                    self.give(driver, flow, seqs[flow], self.size(flow, seqs[flow]))
                    seqs[flow] += 1
            return
        due = [begin] * len(self.topics)
        while not self.stop.is_set():
            # A flow goes on when its message is through, after a pause.
            now = time.monotonic_ns()
            for flow in flows:
                with self.under_way:
                    is_free = self.through[flow] >= seqs[flow]
                if due[flow] is None and is_free:
                    due[flow] = now + load["think_ns"]
                if due[flow] is not None and due[flow] <= now:
                    if now >= end:
                        return
                    due[flow] = None
                    seqs[flow] += 1
                    self.give(driver, flow, seqs[flow] - 1, self.size(flow, seqs[flow] - 1))
            times = [time_of for time_of in due if time_of is not None]
            pause = (min(times) - time.monotonic_ns()) / 1e9 if times else 0.02
            if pause > 0:
                with self.under_way:
                    if times or not any(self.through[flow] >= seqs[flow] for flow in flows):
                        self.under_way.wait(min(pause, 0.02))
            driver.idle(0)

    def has_come(self, driver, count, end):
        """Waits until so many messages are through; false if the flood is over."""
        while time.monotonic_ns() < end and not self.stop.is_set():
            with self.under_way:
                if self.all_through >= count:
                    return True
                self.under_way.wait(0.02)
            driver.idle(0)
        return False

    def sleep_until(self, driver, due):
        while not self.stop.is_set():
            left = (due - time.monotonic_ns()) / 1e9
            if left <= 0:
                return True
            if left > 0.05:
                driver.idle(0.02)
            else:
                time.sleep(left)
        return False


def place(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


class Mqtt:
    """paho-mqtt: a thread for each client."""

    library = "paho-mqtt"

    def __init__(self, job):
        self.job, self.clients, self.mids, self.early = job, [], {}, set()
        self.lock = threading.Lock()

    def client(self, name, where, on_message=None, subscribe=None):
        import paho.mqtt.client as paho

        version = paho.MQTTv5 if self.job.leg["version"] == 5 else paho.MQTTv311
        client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id=name, protocol=version)
        ready, left = threading.Event(), [0]
        # The window is kept here; the library's own limit of 20 would be another one.
        client.max_inflight_messages_set(65535)
        client.max_queued_messages_set(0)
        if self.job.login:
            client.username_pw_set(*self.job.login)

        def on_socket_open(_client, _data, opened):
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def on_connect(client, _data, _flags, code, _properties):
            if code.is_failure:
                self.job.rows.add("n refused: %s" % code)
                return
            parts = [subscribe[at : at + 50] for at in range(0, len(subscribe), 50)] if subscribe else []
            left[0] = len(parts)
            for part in parts:
                client.subscribe([(topic, self.job.taking["qos"]) for topic in part])
            if not parts:
                ready.set()

        def on_subscribe(_client, _data, _mid, codes, _properties):
            left[0] -= 1
            if any(code.is_failure for code in codes):
                self.job.rows.add("n a subscription was refused: %s" % codes[0])
            elif left[0] == 0:
                ready.set()

        client.on_connect, client.on_subscribe = on_connect, on_subscribe
        client.on_socket_open = on_socket_open
        if on_message:
            client.on_message = on_message
        client.connect(*where, keepalive=60)
        client.loop_start()
        self.clients.append(client)
        if not ready.wait(PATIENCE_S):
            raise RuntimeError("no connection to %s:%d" % where)
        return client

    def connect(self):
        job = self.job
        for copy in range(job.copies):
            def on_message(_client, _data, message, copy=copy):
                job.received(copy, job.flow_of[message.topic], message.payload)

            self.client("s%x-%d" % (job.run, copy), job.subscribe_at, on_message, job.topics)
        self.publisher = self.client("p%x" % job.run, job.publish_at)

        def on_publish(_client, _data, mid, _code, _properties):
            with self.lock:
                what = self.mids.pop(mid, None)
                if what is None:
                    self.early.add(mid)
            if what:
                job.acknowledged(*what)

        if job.leg["qos"] > 0:
            self.publisher.on_publish = on_publish

    def publish(self, flow, seq, payload):
        mid = self.publisher.publish(self.job.topics[flow], payload, self.job.leg["qos"]).mid
        if self.job.leg["qos"] > 0:
            with self.lock:
                is_early = mid in self.early
                self.early.discard(mid)
                if not is_early:
                    self.mids[mid] = (flow, seq)
            if is_early:
                self.job.acknowledged(flow, seq)

    def idle(self, seconds):
        time.sleep(seconds)

    def close(self):
        for client in self.clients:
            client.disconnect()
            client.loop_stop()


class Amqp:
    """pika: a blocking connection that publishes, and one in a thread for each subscriber with a queue of its own."""

    library = "pika"

    def __init__(self, job):
        self.job = job

    def connection(self, where):
        import pika

        login = self.job.login or ("guest", "guest")
        return pika.BlockingConnection(
            pika.ConnectionParameters(*where, credentials=pika.PlainCredentials(*login), heartbeat=0)
        )

    def take(self, copy, ready):
        job = self.job
        try:
            connection = self.connection(job.subscribe_at)
            channel = connection.channel()
            is_acknowledged = job.taking["qos"] > 0
            if is_acknowledged:
                channel.basic_qos(prefetch_count=min(65535, job.taking["window"]))
            queue = channel.queue_declare("", exclusive=True).method.queue
            for topic in job.topics:
                channel.queue_bind(queue, "amq.topic", topic.replace("/", "."))

            def on_message(channel, method, _properties, body):
                job.received(copy, job.flow_of[method.routing_key.replace(".", "/")], body)
                if is_acknowledged:
                    channel.basic_ack(method.delivery_tag)

            channel.basic_consume(queue, on_message, auto_ack=not is_acknowledged)
            ready.set()
            channel.start_consuming()
        except Exception as error:  # It ends with the connection.
            if not job.stop.is_set():
                job.rows.add("n subscriber %d: %r" % (copy, error))

    def connect(self):
        for copy in range(self.job.copies):
            ready = threading.Event()
            threading.Thread(target=self.take, args=(copy, ready), daemon=True).start()
            if not ready.wait(PATIENCE_S):
                raise RuntimeError("no subscription")
        self.publisher = self.connection(self.job.publish_at)
        self.channel = self.publisher.channel()
        if self.job.leg["qos"] > 0:
            # pika's blocking channel then waits for each confirmation: a window of one.
            self.channel.confirm_delivery()
            if self.job.leg["window"] > 1:
                self.job.rows.add("n pika's blocking channel confirms one by one: the window is 1")

    def publish(self, flow, seq, payload):
        self.channel.basic_publish("amq.topic", self.job.topics[flow].replace("/", "."), payload)
        if self.job.leg["qos"] > 0:
            self.job.acknowledged(flow, seq)

    def idle(self, seconds):
        self.publisher.process_data_events(seconds)

    def close(self):
        self.publisher.close()


class Stomp:
    """stomp.py: a thread for each connection."""

    library = "stomp.py"

    def __init__(self, job):
        self.job, self.connections, self.receipts = job, [], {}

    def connection(self, where, listener):
        import stomp

        connection = stomp.Connection12([where], heartbeats=(0, 0), vhost="/", auto_decode=False)
        connection.set_listener("", listener)
        login = self.job.login or ("guest", "guest")
        connection.connect(*login, wait=True)
        connection.transport.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connections.append(connection)
        return connection

    def connect(self):
        import stomp

        job, driver = self.job, self

        class Listener(stomp.ConnectionListener):
            def __init__(self, copy):
                self.copy, self.left, self.connection = copy, set(), None
                self.ready = threading.Event()

            def on_receipt(self, frame):
                receipt = text(frame.headers["receipt-id"])
                if receipt in self.left:
                    self.left.discard(receipt)
                    if not self.left:
                        self.ready.set()
                    return
                what = driver.receipts.pop(receipt, None)
                if what:
                    job.acknowledged(*what)

            def on_message(self, frame):
                flow = int(text(frame.headers["subscription"]))
                body = frame.body if isinstance(frame.body, bytes) else frame.body.encode()
                job.received(self.copy, flow, body)
                if job.taking["qos"] > 0:
                    self.connection.ack(text(frame.headers["ack"]))

            def on_error(self, frame):
                job.rows.add("n error: %s" % " ".join(str(frame.body).split()))

        for copy in range(job.copies):
            listener = Listener(copy)
            connection = listener.connection = self.connection(job.subscribe_at, listener)
            listener.left = {"sub-%d" % flow for flow in range(len(job.topics))}
            for flow, topic in enumerate(job.topics):
                destination = "/topic/" + topic.replace("/", ".")
                ack = "client-individual" if job.taking["qos"] > 0 else "auto"
                connection.subscribe(destination, str(flow), ack, headers={"receipt": "sub-%d" % flow})
            if not listener.ready.wait(PATIENCE_S):
                raise RuntimeError("no subscription")
        self.publisher = self.connection(job.publish_at, Listener(0))

    def publish(self, flow, seq, payload):
        headers = {}
        if self.job.leg["qos"] > 0:
            headers["receipt"] = "m-%d-%d" % (flow, seq)
            self.receipts[headers["receipt"]] = (flow, seq)
        self.publisher.send("/topic/" + self.job.topics[flow].replace("/", "."), payload, headers=headers)

    def idle(self, seconds):
        time.sleep(seconds)

    def close(self):
        for connection in self.connections:
            connection.disconnect()


def text(word):
    return word.decode() if isinstance(word, bytes) else word


class Coap:
    """aiocoap: an event loop in a thread of its own."""

    library = "aiocoap"

    def __init__(self, job):
        self.job, self.kept = job, []
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def uri(self, where, flow, query=""):
        base = "ps/data/" if self.job.cell["system"] == "thalweg" else ""
        return "coap://%s:%d/%s%s%s" % (*where, base, self.job.topics[flow], query)

    def connect(self):
        asyncio.run_coroutine_threadsafe(self.begin(), self.loop).result(PATIENCE_S)

    def put(self, flow, payload, is_confirmable):
        import aiocoap

        uri = self.uri(self.job.publish_at, flow)
        tuning = aiocoap.Reliable() if is_confirmable else aiocoap.Unreliable()
        return aiocoap.Message(code=aiocoap.PUT, uri=uri, payload=payload, transport_tuning=tuning)

    async def begin(self):
        import aiocoap

        job = self.job
        self.publisher = await aiocoap.Context.create_client_context()
        for flow in range(len(job.topics)):
            # Servers that are no brokers have no resource before something was put there.
            if job.cell["system"] != "thalweg":
                await self.publisher.request(self.put(flow, b"", True)).response
        for copy in range(job.copies):
            context = await aiocoap.Context.create_client_context()
            for flow in range(len(job.topics)):
                # Our broker keeps what an observer has not taken yet.
                query = "?queue=1000&qos=%d" % min(1, job.taking["qos"]) if job.cell["system"] == "thalweg" else ""
                message = aiocoap.Message(code=aiocoap.GET, uri=self.uri(job.subscribe_at, flow, query), observe=0)
                request = context.request(message)

                def notified(response, copy=copy, flow=flow):
                    job.received(copy, flow, response.payload)

                request.observation.register_callback(notified)
                answer = await request.response
                if not answer.code.is_successful():
                    raise RuntimeError("no observation: %s" % answer.code)
                self.kept.append(request)
            self.kept.append(context)

    def publish(self, flow, seq, payload):
        asyncio.run_coroutine_threadsafe(self.request(flow, seq, payload), self.loop)

    async def request(self, flow, seq, payload):
        try:
            answer = await self.publisher.request(self.put(flow, payload, self.job.leg["qos"] > 0)).response
        except Exception as error:
            self.job.rows.add("n put failed: %r" % error)
            return
        if self.job.leg["qos"] > 0 and answer.code.is_successful():
            self.job.acknowledged(flow, seq)

    def idle(self, seconds):
        time.sleep(seconds)

    def close(self):
        self.loop.call_soon_threadsafe(self.loop.stop)


DRIVERS = {"mqtt": Mqtt, "amqp": Amqp, "stomp": Stomp, "coap": Coap}


def main():
    rows = Rows()
    try:
        job = Job(json.loads(sys.stdin.readline()), rows)
        driver = DRIVERS[job.leg["protocol"]](job)
        import importlib.metadata

        rows.add("n %s %s" % (driver.library, importlib.metadata.version(driver.library)))
        driver.connect()
        rows.add("ready")
        rows.flush()
        word, _, begin = sys.stdin.readline().strip().partition(" ")
        if word != "begin":
            return

        def listen():
            sys.stdin.readline()
            job.stop.set()
            with job.under_way:
                job.under_way.notify_all()

        threading.Thread(target=listen, daemon=True).start()
        job.play(driver, int(begin))
        while not job.stop.is_set():
            driver.idle(0.02)
        driver.close()
        rows.add("end")
    except Exception as error:  # Whatever it is: it belongs into the trial's record.
        rows.add("fault %s" % " ".join(repr(error).split()))
    rows.flush()
    # Threads of libraries that do not end are not waited for.
    sys.stdout.flush()
    import os

    os._exit(0)


if __name__ == "__main__":
    main()
