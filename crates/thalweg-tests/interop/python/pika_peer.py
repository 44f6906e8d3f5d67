"""pika as a puppet: AMQP 0-9-1, one connection with one channel per peer."""

import datetime
import decimal
import queue
import ssl
import threading

import pika
from pika import exceptions

import puppet


class Peer:
    def __init__(self, name):
        self.name = name
        self.commands = queue.Queue()

    # pika's blocking connection belongs to one thread: it obeys commands between the broker's frames.
    def connect(self, command):
        ready = queue.Queue()
        threading.Thread(target=self._serve, args=(command, ready), daemon=True).start()
        error = ready.get(timeout=puppet.PATIENCE_S)
        if error is not None:
            raise error
        return {}

    def _serve(self, command, ready):
        try:
            credentials = pika.PlainCredentials(command.get("user", "guest"), command.get("password", "guest"))
            self.connection = pika.BlockingConnection(
                pika.ConnectionParameters(
                    command["host"],
                    command["port"],
                    command.get("vhost", "/"),
                    credentials,
                    heartbeat=command.get("heartbeat", 30),
                    socket_timeout=puppet.PATIENCE_S,
                    ssl_options=trusting(command),
                )
            )
            self._open()
        except Exception as error:  # the caller waits for it
            ready.put(error)
            return
        ready.put(None)
        try:
            while self.connection.is_open:
                try:
                    verb, command, answer = self.commands.get_nowait()
                except queue.Empty:
                    self.connection.process_data_events(time_limit=5)
                    continue
                try:
                    answer.put((verb(command), None))
                except Exception as error:  # every failure is an answer
                    answer.put((None, error))
            puppet.event("closed", self.name)
        except exceptions.ConnectionClosed as error:
            puppet.event("closed", self.name, code=error.reply_code, text=error.reply_text)
        except exceptions.AMQPError:
            puppet.event("closed", self.name)

    def _open(self):
        self.channel = self.connection.channel()
        self.channel.add_on_cancel_callback(
            lambda frame: puppet.event("cancelled", self.name, tag=frame.method.consumer_tag)
        )
        # Publishes wait for their confirms on a channel of their own, so that a refused one ends no consumer.
        self.publishing = self.connection.channel()
        self.publishing.confirm_delivery()

    def __getattr__(self, verb):
        """Every other command is carried out by the connection's thread."""
        if verb.startswith("_") or "_do_" + verb not in dir(type(self)):
            raise AttributeError(verb)
        work = getattr(self, "_do_" + verb)

        def call(command):
            answer = queue.Queue()
            self.commands.put((work, command, answer))
            self.connection.add_callback_threadsafe(lambda: None)
            fields, error = answer.get(timeout=puppet.PATIENCE_S)
            if error is not None:
                raise error
            return fields

        return call

    def _do_declare(self, command):
        method = self.channel.queue_declare(
            command["queue"],
            command.get("passive", False),
            command.get("durable", False),
            command.get("exclusive", False),
            command.get("auto_delete", False),
            table_in(command.get("arguments")),
        ).method
        return {"queue": method.queue, "messages": method.message_count, "consumers": method.consumer_count}

    def _do_delete(self, command):
        self.channel.queue_delete(command["queue"])

    def _do_bind(self, command):
        self.channel.queue_bind(
            command["queue"], command["exchange"], command["key"], table_in(command.get("arguments"))
        )

    def _do_consume(self, command):
        if command.get("prefetch"):
            self.channel.basic_qos(prefetch_count=command["prefetch"])
        tag = self.channel.basic_consume(
            command["queue"],
            self._message,
            command.get("no_ack", False),
            command.get("exclusive", False),
            command.get("tag"),
            table_in(command.get("arguments")),
        )
        return {"tag": tag}

    def _do_cancel(self, command):
        self.channel.basic_cancel(command["tag"])

    def _do_publish(self, command):
        # Who asks by direct reply-to publishes on the channel that consumes the answers.
        channel = self.channel if command.get("same_channel") else self.publishing
        try:
            channel.basic_publish(
                command["exchange"],
                command["key"],
                bytes.fromhex(command["payload"]),
                properties_in(command.get("properties", {})),
                command.get("mandatory", False),
            )
        except exceptions.UnroutableError:
            return {"outcome": "returned"}
        except exceptions.NackError:
            return {"outcome": "refused"}
        return {"outcome": "confirmed"}

    def _do_ack(self, command):
        self.channel.basic_ack(command["delivery"], command.get("multiple", False))

    def _do_nack(self, command):
        self.channel.basic_nack(command["delivery"], command.get("multiple", False), command.get("requeue", True))

    def _do_disconnect(self, _command):
        self.connection.close()

    def _message(self, _channel, method, properties, body):
        puppet.event(
            "message",
            self.name,
            exchange=method.exchange,
            key=method.routing_key,
            tag=method.consumer_tag,
            delivery=method.delivery_tag,
            redelivered=method.redelivered,
            payload=body.hex(),
            properties=properties_out(properties),
        )


def trusting(command):
    if "ca" not in command:
        return None
    return pika.SSLOptions(ssl.create_default_context(cafile=command["ca"]), command["host"])


NAMES = (
    "content_type content_encoding delivery_mode priority correlation_id reply_to expiration "
    "message_id timestamp type user_id app_id"
).split()


def properties_in(wanted):
    plain = {name: wanted[name] for name in NAMES if name in wanted}
    return pika.BasicProperties(headers=table_in(wanted.get("headers")), **plain)


def properties_out(properties):
    there = {name: getattr(properties, name) for name in NAMES if getattr(properties, name) is not None}
    if properties.headers is not None:
        there["headers"] = [[name, value_out(value)] for name, value in properties.headers.items()]
    return there


def table_in(pairs):
    return None if pairs is None else {name: value_in(value) for name, value in pairs}


def value_in(typed):
    kind, value = typed
    if kind == "bytes":
        return bytes.fromhex(value)
    if kind == "time":
        return datetime.datetime.fromtimestamp(value, datetime.timezone.utc)
    if kind == "list":
        return [value_in(item) for item in value]
    if kind == "map":
        return table_in(value)
    return value


def value_out(value):
    if value is None:
        return ["null", None]
    if isinstance(value, bool):
        return ["bool", value]
    if isinstance(value, int):
        return ["int", int(value)]
    if isinstance(value, (float, decimal.Decimal)):
        return ["float", float(value)]
    if isinstance(value, str):
        return ["text", value]
    if isinstance(value, bytes):
        return ["bytes", value.hex()]
    if isinstance(value, datetime.datetime):
        return ["time", int(value.replace(tzinfo=value.tzinfo or datetime.timezone.utc).timestamp())]
    if isinstance(value, list):
        return ["list", [value_out(item) for item in value]]
    return ["map", [[name, value_out(item)] for name, item in value.items()]]


puppet.run(Peer)
