"""Wills: who vanishes has one, who says goodbye has none, and protocols that carry none are refused."""

from __future__ import annotations

import subprocess
import sys

import pytest
import thalweg
from thalweg import Reliability, Will, aio

SECONDS = 30.0

PROGRAM = """
import sys, thalweg
client = thalweg.connect({url!r}, client_id="pump", mqtt_version={version}, session={session},
    will=thalweg.Will("plant/pump", "gone", retain=True))
assert client.publish("a", "here", timeout=30)
print("here", flush=True)
sys.stdin.read()
client.close()
"""


def pump(url: str, version: int, session: int) -> subprocess.Popen:
    program = PROGRAM.format(url=url, version=version, session=session)
    child = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "here\n"
    return child


@pytest.mark.parametrize("session", [0, 60])
@pytest.mark.parametrize("version", [4, 5])
def test_who_vanishes_has_a_will(broker, version, session):
    with thalweg.connect(broker.url("amqp")) as watcher:
        wills = watcher.subscribe("plant/#", timeout=SECONDS)
        child = pump(broker.url("mqtt"), version, session)
        child.kill()
        child.wait(SECONDS)
        message = wills.next(timeout=SECONDS)
        assert (message.topic, message.payload) == ("plant/pump", b"gone")
        found = watcher.last_value("plant/pump", timeout=SECONDS)
        assert found is not None and found.payload == b"gone", "retained"


@pytest.mark.parametrize("version", [4, 5])
def test_who_says_goodbye_has_none(broker, version):
    with thalweg.connect(broker.url("mqtt")) as watcher:
        wills = watcher.subscribe("plant/#", timeout=SECONDS)
        changes = watcher.presence("pump", timeout=SECONDS)
        child = pump(broker.url("mqtt"), version, 0)
        child.communicate(timeout=SECONDS)
        assert child.returncode == 0
        while (change := changes.next(timeout=SECONDS)).online:
            pass
        # The broker has ended the connection: a will would be published by now, before this.
        assert change.why == "goodbye"
        watcher.publish("plant/end", "end", timeout=SECONDS)
        assert wills.next(timeout=SECONDS).payload == b"end"


@pytest.mark.parametrize("protocol", ["coap", "amqp", "stomp"])
@pytest.mark.parametrize("connect", [thalweg.connect, aio.connect])
def test_protocols_without_wills_are_refused_at_once(broker, connect, protocol):
    for urls in ([broker.url(protocol)], [broker.url("mqtt"), broker.url(protocol)]):
        with pytest.raises(thalweg.ThalwegError, match=f"a will cannot go by {protocol}: only MQTT carries one"):
            connect(*urls, will=Will("a", "b"))


def test_brokers_that_are_not_taken_do_not_matter(broker):
    with thalweg.connect(*broker.urls, via="mqtt", will=Will("a", "b", Reliability.AT_MOST_ONCE)) as client:
        assert client.publish("x", "y", timeout=SECONDS)


def test_nonsense_is_refused():
    for will, error in [
        (Will("a/#", "b"), thalweg.ThalwegError),
        (Will("a", b"x" * 65_536), thalweg.ThalwegError),
        (Will("a", 5), TypeError),
        (("a", "b"), TypeError),
    ]:
        with pytest.raises(error):
            thalweg.connect("mqtt://127.0.0.1", will=will)
