"""The stage of the AMQP scenarios: pika connections and the facts that their calls state."""

import socket
import time

import pika
from pika import exceptions

from stage import PATIENCE_S, QUIET_S, Register

amqp = Register()


class Stage:
    def __init__(self, name, port):
        self.name = name
        self.port = port
        self.connections = []
        self._putter = None

    def called(self, short):
        """A name of this scenario's own."""
        return f"{self.name}.{short}"

    def connection(self, **options):
        options.setdefault("heartbeat", 0)
        options.setdefault("blocked_connection_timeout", PATIENCE_S)
        connection = pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", self.port, socket_timeout=PATIENCE_S, **options)
        )
        self.connections.append(connection)
        return connection

    def channel(self, connection=None, **options):
        return Channel(connection or self.connection(**options))

    def put(self, exchange, key, body, mandatory=False, **properties):
        """Publishes on a confirming channel of its own, so that the message has arrived when this returns."""
        if self._putter is None or not self._putter.raw.is_open:
            self._putter = self.channel()
            self._putter.raw.confirm_delivery()
        return self._putter.put(exchange, key, body, mandatory, **properties)

    def close(self):
        for connection in self.connections:
            try:
                if connection.is_open:
                    connection.close()
            except Exception:  # a scenario may have broken it on purpose
                pass


def text(body):
    return body.decode("utf-8", "backslashreplace")


def closed(error):
    """`406 PRECONDITION_FAILED - …`, and whether the channel or the connection ended."""
    if isinstance(error, exceptions.ChannelClosed):
        return f"channel closed {error.reply_code} {error.reply_text}"
    if isinstance(error, exceptions.ConnectionClosed):
        return f"connection closed {error.reply_code} {error.reply_text}"
    return f"{type(error).__name__} {error}"


def properties_told(properties):
    """The properties that are there, in the order of the specification."""
    names = (
        "content_type content_encoding delivery_mode priority correlation_id reply_to expiration "
        "message_id timestamp type user_id app_id"
    ).split()
    told = [f"{name}={getattr(properties, name)!r}" for name in names if getattr(properties, name) is not None]
    if properties.headers is not None:
        told.append(f"headers={headers_told(properties.headers)}")
    return " ".join(told)


def headers_told(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {headers_told(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(headers_told(item) for item in value) + "]"
    if type(value).__name__ in ("datetime", "struct_time"):
        return "<time>"
    return repr(value)


class Channel:
    """A pika channel whose calls give facts instead of raising; a closed one is opened anew."""

    def __init__(self, connection):
        self.connection = connection
        self.raw = connection.channel()
        self.arrived = []
        self.cancelled = []
        self.returned = []
        self.tags = {}

    def _open(self):
        if not self.raw.is_open:
            self.raw = self.connection.channel()

    def do(self, verb, *arguments, **named):
        """The call's outcome as a fact."""
        self._open()
        try:
            answer = getattr(self.raw, verb)(*arguments, **named)
        except exceptions.AMQPError as error:
            return closed(error)
        method = getattr(answer, "method", None)
        if type(method).__name__ == "DeclareOk" and hasattr(method, "message_count"):
            return f"ok {method.queue} messages={method.message_count} consumers={method.consumer_count}"
        if type(method).__name__ in ("PurgeOk", "DeleteOk") and hasattr(method, "message_count"):
            return f"ok messages={method.message_count}"
        return "ok"

    def queue(self, name, **named):
        return self.do("queue_declare", name, **named)

    def exchange(self, name, kind="direct", **named):
        return self.do("exchange_declare", name, kind, **named)

    def bind(self, queue, exchange, key="", arguments=None):
        return self.do("queue_bind", queue, exchange, key, arguments)

    def count(self, queue):
        """Messages that are ready, and consumers; asked on a channel that may close."""
        probe = self.connection.channel()
        try:
            method = probe.queue_declare(queue, passive=True).method
            probe.close()
            return f"messages={method.message_count} consumers={method.consumer_count}"
        except exceptions.ChannelClosed as error:
            return closed(error)

    def settled_count(self, queue, wanted):
        """The count once it contains `wanted`: what a broker does on its own time."""
        deadline = time.monotonic() + PATIENCE_S
        while wanted not in (count := self.count(queue)) and time.monotonic() < deadline:
            time.sleep(0.02)
        return count

    def put(self, exchange, key, body, mandatory=False, **properties):
        self._open()
        if isinstance(body, str):
            body = body.encode()
        try:
            self.raw.basic_publish(exchange, key, body, pika.BasicProperties(**properties), mandatory)
            return "confirmed"
        except exceptions.UnroutableError as error:
            back = error.messages[0].method
            return f"returned {back.reply_code} {back.reply_text} exchange={back.exchange!r} key={back.routing_key!r}"
        except exceptions.NackError:
            return "refused"
        except exceptions.AMQPError as error:
            return closed(error)

    def get(self, queue, auto_ack=True):
        """(method, properties, body), or Nones."""
        self._open()
        return self.raw.basic_get(queue, auto_ack)

    def drain(self, queue):
        """Bodies of everything that is ready, in order."""
        bodies = []
        while True:
            method, _, body = self.get(queue)
            if method is None:
                return bodies
            bodies.append(text(body))

    def drain_when(self, queue, count):
        """The same, once `count` messages came; what comes on the broker's own time is waited for."""
        bodies = []
        deadline = time.monotonic() + PATIENCE_S
        while len(bodies) < count and time.monotonic() < deadline:
            bodies += self.drain(queue)
            if len(bodies) < count:
                time.sleep(0.02)
        return bodies

    def await_one(self, queue):
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            method, properties, body = self.get(queue)
            if method is not None:
                return method, properties, body
            time.sleep(0.02)
        raise TimeoutError(f"nothing came to {queue}")

    def consume(self, queue, tag, auto_ack=False, exclusive=False, arguments=None):
        self._open()

        def take(_channel, method, properties, body):
            self.arrived.append((method, properties, body))

        self.raw.add_on_cancel_callback(lambda frame: self.cancelled.append(frame.method.consumer_tag))
        try:
            self.raw.basic_consume(queue, take, auto_ack, exclusive, tag, arguments)
            return "ok"
        except exceptions.AMQPError as error:
            return closed(error)

    def receive(self, count, within=PATIENCE_S):
        """Takes `count` deliveries off, or as many as come."""
        deadline = time.monotonic() + within
        while len(self.arrived) < count and time.monotonic() < deadline:
            self.connection.process_data_events(0.02)
        taken, self.arrived = self.arrived[:count], self.arrived[count:]
        return taken

    def bodies(self, count, within=PATIENCE_S):
        return [text(body) for _, _, body in self.receive(count, within)]

    def flagged(self, count, within=PATIENCE_S):
        """Bodies, with a mark behind those that are flagged as delivered before."""
        return [text(body) + ("*" if method.redelivered else "") for method, _, body in self.receive(count, within)]

    def quiet(self):
        """Bodies that come although nothing should."""
        return self.bodies(1000, QUIET_S)

    def cut(self):
        """The network fails: no good-bye."""
        self.connection._impl._transport._sock.shutdown(socket.SHUT_RDWR)

