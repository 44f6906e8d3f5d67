"""AMQP: frames that no client library sends, written by hand; the codes with which a broker answers."""

import socket
import struct

from amqp_stage import amqp
from stage import PATIENCE_S

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8


def short(text):
    return bytes([len(text)]) + text.encode()


def frame(kind, channel, payload, end=b"\xce"):
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + end


def method(channel, class_id, method_id, arguments=b""):
    return frame(METHOD, channel, struct.pack(">HH", class_id, method_id) + arguments)


class Wire:
    def __init__(self, stage):
        self.socket = socket.create_connection(("127.0.0.1", stage.port), PATIENCE_S)
        self.socket.settimeout(PATIENCE_S)
        self.buffer = b""

    def send(self, data):
        self.socket.sendall(data)

    def _fill(self, count):
        while len(self.buffer) < count:
            more = self.socket.recv(65536)
            if not more:
                return False
            self.buffer += more
        return True

    def next(self):
        """(kind, channel, payload), or None at the end."""
        if not self._fill(7):
            return None
        kind, channel, size = struct.unpack(">BHI", self.buffer[:7])
        if not self._fill(8 + size):
            return None
        payload = self.buffer[7 : 7 + size]
        self.buffer = self.buffer[8 + size :]
        return kind, channel, payload

    def answer(self):
        """What the broker says next, without heartbeats."""
        try:
            while (got := self.next()) is not None:
                kind, channel, payload = got
                if kind == HEARTBEAT:
                    continue
                if kind != METHOD:
                    return f"frame {kind}"
                class_id, method_id = struct.unpack(">HH", payload[:4])
                if (class_id, method_id) in ((10, 50), (20, 40)):
                    code = struct.unpack(">H", payload[4:6])[0]
                    size = payload[6]
                    words = payload[7 : 7 + size].decode()
                    about = struct.unpack(">HH", payload[7 + size : 11 + size])
                    who = "connection" if class_id == 10 else f"channel {channel}"
                    return f"{who} closed {code} {words} about {about}"
                return f"method {class_id}.{method_id} on {channel}"
        except TimeoutError:
            return "silence"
        except ConnectionError:
            pass
        return "the connection ends"

    def greet(self, frame_max=0, channel_max=0, heartbeat=0, vhost="/"):
        """As far as connection.open-ok."""
        self.send(b"AMQP\x00\x00\x09\x01")
        assert self.answer() == "method 10.10 on 0"
        login = b"\0guest\0guest"
        self.send(
            method(0, 10, 11, struct.pack(">I", 0) + short("PLAIN") + struct.pack(">I", len(login)) + login + short("en_US"))
        )
        tune = self.next()[2]
        limits = struct.unpack(">HIH", tune[4:12])
        self.send(method(0, 10, 31, struct.pack(">HIH", channel_max or limits[0], frame_max or limits[1], heartbeat)))
        self.send(method(0, 10, 40, short(vhost) + b"\0\0"))
        assert self.answer() == "method 10.41 on 0"
        return limits

    def open(self, channel=1):
        self.send(method(channel, 20, 10, b"\0"))
        assert self.answer() == f"method 20.11 on {channel}"
        return self


@amqp
def another_protocol_is_answered_with_ours(stage, told):
    for greeting in [b"HTTP/1.1", b"AMQP\x01\x01\x00\x0a", b"AMQP\x00\x01\x00\x00", b"AMQP\x02\x01\x00\x00"]:
        wire = Wire(stage)
        wire.send(greeting)
        told(f"{greeting}: {wire.socket.recv(8)} then {wire.answer()}")


@amqp
def tune_proposal(stage, told):
    told(f"channels, frame, heartbeat: {Wire(stage).greet()}")


@amqp
def frame_without_its_end(stage, told):
    wire = Wire(stage)
    wire.greet()
    wire.send(frame(METHOD, 1, struct.pack(">HH", 20, 10) + b"\0", end=b"\x00"))
    told(wire.answer())


@amqp
def frame_larger_than_agreed(stage, told):
    wire = Wire(stage)
    wire.greet(frame_max=4096)
    wire.send(struct.pack(">BHI", METHOD, 1, 5000) + b"x" * 5001)
    told(wire.answer())


@amqp
def frame_of_an_unknown_kind(stage, told):
    wire = Wire(stage)
    wire.greet()
    wire.open()
    wire.send(frame(9, 1, b"?"))
    told(wire.answer())


@amqp
def method_that_nobody_knows(stage, told):
    for class_id, method_id in [(77, 1), (60, 999)]:
        wire = Wire(stage)
        wire.greet()
        wire.open()
        wire.send(method(1, class_id, method_id))
        told(wire.answer())


@amqp
def method_on_a_channel_that_is_not_open(stage, told):
    wire = Wire(stage)
    wire.greet()
    wire.send(method(5, 50, 10, b"\0\0" + short("q") + b"\0" + struct.pack(">I", 0)))
    told(wire.answer())


@amqp
def channel_opened_twice(stage, told):
    wire = Wire(stage)
    wire.greet()
    wire.open()
    wire.send(method(1, 20, 10, b"\0"))
    told(wire.answer())


@amqp
def channel_number_above_the_agreed(stage, told):
    wire = Wire(stage)
    wire.greet(channel_max=3)
    wire.send(method(4, 20, 10, b"\0"))
    told(wire.answer())


@amqp
def content_without_a_publish(stage, told):
    for kind, payload in [(HEADER, struct.pack(">HHQH", 60, 0, 1, 0)), (BODY, b"x")]:
        wire = Wire(stage)
        wire.greet()
        wire.open()
        wire.send(frame(kind, 1, payload))
        told(wire.answer())


@amqp
def method_within_a_content(stage, told):
    wire = Wire(stage)
    wire.greet()
    wire.open()
    wire.send(method(1, 60, 40, b"\0\0" + short("") + short("k") + b"\0"))
    wire.send(method(1, 50, 10, b"\0\0" + short("q") + b"\0" + struct.pack(">I", 0)))
    told(wire.answer())


@amqp
def body_longer_than_its_header_says(stage, told):
    wire = Wire(stage)
    wire.greet()
    wire.open()
    wire.send(method(1, 60, 40, b"\0\0" + short("") + short("k") + b"\0"))
    wire.send(frame(HEADER, 1, struct.pack(">HHQH", 60, 0, 2, 0)))
    wire.send(frame(BODY, 1, b"xyz"))
    told(wire.answer())


@amqp
def body_in_pieces_and_of_nothing(stage, told):
    channel = stage.channel()
    name = stage.called("q")
    channel.queue(name)
    wire = Wire(stage)
    wire.greet()
    wire.open()
    for pieces in [[b"a", b"", b"bc"], []]:
        wire.send(method(1, 60, 40, b"\0\0" + short("") + short(name) + b"\0"))
        wire.send(frame(HEADER, 1, struct.pack(">HHQH", 60, 0, sum(map(len, pieces)), 0)))
        for piece in pieces:
            wire.send(frame(BODY, 1, piece))
    told(channel.drain_when(name, 2))


@amqp
def heartbeat_on_a_channel(stage, told):
    wire = Wire(stage)
    wire.greet()
    wire.open()
    wire.send(frame(HEARTBEAT, 1, b""))
    wire.send(method(1, 20, 40, struct.pack(">H", 200) + short("") + b"\0\0\0\0"))
    told(wire.answer())


@amqp
def closing_and_what_follows(stage, told):
    wire = Wire(stage)
    wire.greet()
    wire.open()
    wire.send(method(1, 20, 40, struct.pack(">H", 200) + short("bye") + b"\0\0\0\0"))
    told(wire.answer())
    wire.open()
    told("opened again")
    wire.send(method(0, 10, 50, struct.pack(">H", 200) + short("bye") + b"\0\0\0\0"))
    told(wire.answer())
    told(wire.answer())


@amqp
def declared_without_waiting(stage, told):
    wire = Wire(stage)
    wire.greet()
    wire.open()
    name = stage.called("q")
    # Flag 16 is no-wait: no answer comes, so the next one is that to the close.
    wire.send(method(1, 50, 10, b"\0\0" + short(name) + bytes([16 | 4]) + struct.pack(">I", 0)))
    wire.send(method(1, 50, 20, b"\0\0" + short(name) + short("amq.direct") + short("k") + b"\1" + struct.pack(">I", 0)))
    wire.send(method(1, 20, 40, struct.pack(">H", 200) + short("") + b"\0\0\0\0"))
    told(wire.answer())


@amqp
def consumer_tag_twice(stage, told):
    wire = Wire(stage)
    wire.greet()
    wire.open()
    name = stage.called("q")
    wire.send(method(1, 50, 10, b"\0\0" + short(name) + bytes([4]) + struct.pack(">I", 0)))
    told(wire.answer())
    for _ in range(2):
        wire.send(method(1, 60, 20, b"\0\0" + short(name) + short("tag") + b"\0" + struct.pack(">I", 0)))
        told(wire.answer())


@amqp
def vhost_that_is_not_there(stage, told):
    wire = Wire(stage)
    wire.send(b"AMQP\x00\x00\x09\x01")
    wire.answer()
    login = b"\0guest\0guest"
    wire.send(method(0, 10, 11, struct.pack(">I", 0) + short("PLAIN") + struct.pack(">I", len(login)) + login + short("en_US")))
    wire.next()
    wire.send(method(0, 10, 31, struct.pack(">HIH", 2047, 131072, 0)))
    wire.send(method(0, 10, 40, short("nowhere") + b"\0\0"))
    told(wire.answer())


@amqp
def mechanism_that_is_not_there(stage, told):
    wire = Wire(stage)
    wire.send(b"AMQP\x00\x00\x09\x01")
    wire.answer()
    wire.send(method(0, 10, 11, struct.pack(">I", 0) + short("MAGIC") + struct.pack(">I", 0) + short("en_US")))
    told(wire.answer())


@amqp
def wrong_password_without_the_capability(stage, told):
    wire = Wire(stage)
    wire.send(b"AMQP\x00\x00\x09\x01")
    wire.answer()
    login = b"\0guest\0wrong"
    wire.send(method(0, 10, 11, struct.pack(">I", 0) + short("PLAIN") + struct.pack(">I", len(login)) + login + short("en_US")))
    told(wire.answer())
