"""What a program without an event loop does with the client."""

from __future__ import annotations

import threading

import pytest
import thalweg
from conftest import eventually
from thalweg import Reliability, Retain, Success

PROTOCOLS = ["mqtt", "coap", "amqp", "stomp"]
SECONDS = 30.0


@pytest.mark.parametrize("receiver", PROTOCOLS)
@pytest.mark.parametrize("sender", PROTOCOLS)
def test_what_one_protocol_publishes_another_receives(broker, sender, receiver):
    with thalweg.connect(broker.url(sender)) as ours, thalweg.connect(broker.url(receiver)) as theirs:
        # Observe is for states; a subscriber who says so may use it.
        subscription = theirs.subscribe("plant/1/temperature", timeout=SECONDS)
        body = bytes(range(256))
        ticket = ours.publish_message(body, "", "plant/1/temperature")
        message = subscription.next(timeout=SECONDS)
        assert (message.topic, message.payload) == ("plant/1/temperature", body)
        assert eventually(lambda: ours.is_publish_success(ticket) is Success.ACKNOWLEDGED)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("reliability", list(Reliability))
def test_every_class_of_reliability_has_an_outcome(broker, protocol, reliability):
    with thalweg.connect(broker.url(protocol)) as client:
        outcome = client.publish("a/b", "x", reliability=reliability, timeout=SECONDS)
        expected = Success.UNKNOWN if reliability is Reliability.AT_MOST_ONCE else Success.ACKNOWLEDGED
        assert outcome is expected


def test_auto_takes_whichever_serves_and_says_why(broker):
    with thalweg.connect(*broker.urls, objective="bytes") as client:
        assert client.publish("a", b"x" * 60, timeout=SECONDS)
        words = client.explain()
        assert any(protocol in words for protocol in PROTOCOLS), words
        assert "bytes" in words, words


def test_properties_and_the_rest_come_along(broker):
    with thalweg.connect(broker.url("mqtt")) as client:
        subscription = client.subscribe("a/#", timeout=SECONDS)
        client.publish_message(
            "{}",
            "",
            "a/b",
            content_type="application/json",
            properties={"unit": "°C"},
            reply_to="answers",
            correlation=b"\x00\x01",
            lifespan=60,
        )
        message = subscription.next(timeout=SECONDS)
        assert message.content_type == "application/json"
        assert ("unit", "°C") in message.properties
        assert (message.reply_to, message.correlation) == ("answers", b"\x00\x01")


@pytest.mark.parametrize("protocol", ["mqtt", "coap"])
def test_a_last_value_is_found_until_it_is_cleared(broker, protocol):
    with thalweg.connect(broker.url(protocol)) as client:
        assert client.last_value("a/state", timeout=SECONDS) is None
        assert client.publish("a/state", b"on", retain=Retain.SET, timeout=SECONDS)
        found = client.last_value("a/state", timeout=SECONDS)
        assert found is not None and found.payload == b"on"
        assert client.publish("a/state", b"", retain=Retain.CLEAR, timeout=SECONDS)
        assert client.last_value("a/state", timeout=SECONDS) is None


def test_a_question_is_answered(broker):
    with thalweg.connect(broker.url("mqtt")) as asker, thalweg.connect(broker.url("amqp")) as answerer:
        questions = answerer.subscribe("time", timeout=SECONDS)

        def answer() -> None:
            question = questions.next(timeout=SECONDS)
            answerer.publish(question.reply_to, b"noon", correlation=question.correlation, timeout=SECONDS)

        thread = threading.Thread(target=answer)
        thread.start()
        assert asker.request("time", b"?", timeout=SECONDS).payload == b"noon"
        thread.join()


def test_a_question_that_nobody_answers_ends(broker):
    with thalweg.connect(broker.url("mqtt")) as client:
        listener = client.subscribe("silence", timeout=SECONDS)
        with pytest.raises(thalweg.TimedOut):
            client.request("silence", b"?", timeout=0.3)
        assert listener.next(timeout=SECONDS).payload == b"?"


def test_what_is_published_before_there_is_a_broker_arrives(broker):
    broker.stop()
    with thalweg.connect(broker.url("mqtt"), backoff=(0.05, 0.2)) as client:
        tickets = [client.publish_message(b"%d" % number, "", "early") for number in range(100)]
        assert {client.is_publish_success(ticket) for ticket in tickets} == {Success.PENDING}
        broker.start()
        assert client.flush(SECONDS)
        assert all(client.is_publish_success(ticket) for ticket in tickets)


def test_a_full_buffer_says_so_and_takes_nothing(broker):
    broker.stop()
    with thalweg.connect(broker.url("mqtt"), buffer_messages=10) as client:
        for _ in range(10):
            client.publish_message(b"x", "", "a")
        with pytest.raises(thalweg.BufferFull):
            client.publish_message(b"x", "", "a")
        client.close(0)


def test_a_buffer_on_disk_survives_its_client(broker, tmp_path):
    broker.stop()
    folder = tmp_path / "buffer"
    with thalweg.connect(broker.url("mqtt"), buffer_folder=folder, client_id="gateway") as client:
        for number in range(50):
            client.publish_message(b"%d" % number, "", "kept", reliability=Reliability.EXACTLY_ONCE)
        client.close(0.1)
    broker.start()
    with thalweg.connect(broker.url("mqtt")) as reader:
        subscription = reader.subscribe("kept", timeout=SECONDS)
        with thalweg.connect(broker.url("mqtt"), buffer_folder=folder, client_id="gateway") as client:
            came = [int(subscription.next(timeout=SECONDS).payload) for _ in range(50)]
            assert client.flush(SECONDS)
        assert came == list(range(50))


def test_nonsense_is_refused_where_it_is_written(broker):
    with pytest.raises(TypeError, match="unknown setting 'colour'"):
        thalweg.connect(broker.url("mqtt"), colour="blue")
    with pytest.raises(thalweg.ThalwegError):
        thalweg.connect("gopher://127.0.0.1")
    with thalweg.connect(broker.url("mqtt")) as client:
        with pytest.raises(ValueError):
            client.publish_message(b"", "", "a", priority=10)
        with pytest.raises(thalweg.ThalwegError):
            client.publish_message(b"", "", "a/#")


@pytest.mark.parametrize("payload", [5, True, 2.5, None, [1, 2], {"a": 1}], ids=repr)
def test_a_payload_is_text_or_bytes(broker, payload):
    with thalweg.connect(broker.url("mqtt")) as client:
        with pytest.raises(TypeError, match="str or bytes-like"):
            client.publish("a", payload, timeout=SECONDS)
        with pytest.raises(TypeError, match="str or bytes-like"):
            client.publish_message(payload, "", "a")
        assert client.publish("a", memoryview(b"xy"), timeout=SECONDS)


def test_a_failure_has_a_reason_and_everything_is_counted(broker):
    with thalweg.connect(broker.url("mqtt")) as client:
        ticket = client.publish_message("late", "", "a", lifespan=0)
        assert client.outcome(ticket, timeout=SECONDS) is Success.FAILED
        why = client.why_failed(ticket)
        assert why
        with pytest.raises(thalweg.ThalwegError, match="not on disk"):
            client.stored(ticket, timeout=SECONDS)
        status = client.status()
        assert status["failures"] == [(ticket, why)]
        assert (status["counts"]["published"], status["counts"]["expired"]) == (1, 1)
        assert status["buffer"]["messages"] == 0


def test_what_could_never_work_is_refused_in_words():
    for url, settings, words in [
        ("mqtt://127.0.0.1", {"mqtt_version": 7}, "MQTT version 7"),
        ("mqtt://a b", {}, "a b"),
        ("coaps://127.0.0.1", {}, "psk"),
    ]:
        with pytest.raises(thalweg.ThalwegError, match=words):
            thalweg.connect(url, **settings)


def test_a_closed_client_says_so(broker):
    client = thalweg.connect(broker.url("mqtt"))
    client.close()
    with pytest.raises(thalweg.Closed):
        client.publish_message(b"", "", "a")


def test_a_subscription_ends_when_it_is_told_to(broker):
    with thalweg.connect(broker.url("mqtt")) as client:
        subscription = client.subscribe("a", timeout=SECONDS)
        subscription.unsubscribe()
        assert subscription.next(timeout=SECONDS) is None


def test_who_is_there_is_told(broker):
    with thalweg.connect(broker.url("amqp")) as client:
        changes = client.presence("pump/7", timeout=SECONDS)
        with thalweg.connect(broker.url("mqtt"), client_id="pump/7") as pump:
            pump.publish("a", b"1")
            came = changes.next(timeout=SECONDS)
        left = changes.next(timeout=SECONDS)
    assert (came.client_id, came.online, came.protocol, came.why) == ("pump/7", True, "MQTT 5.0", None)
    assert (left.online, left.why) == (False, "goodbye")
    assert left.since >= came.since > 0


def test_many_threads_share_a_client(broker):
    with thalweg.connect(broker.url("mqtt")) as client, thalweg.connect(broker.url("mqtt")) as reader:
        subscription = reader.subscribe("many/#", timeout=SECONDS)

        def work(name: int) -> None:
            for number in range(200):
                client.publish_message(b"%d" % number, "", f"many/{name}")

        threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
        for thread in threads:
            thread.start()
        next_of = [0] * 8
        for _ in range(8 * 200):
            message = subscription.next(timeout=SECONDS)
            name = int(message.topic.rpartition("/")[2])
            assert int(message.payload) == next_of[name], "in order"
            next_of[name] += 1
        for thread in threads:
            thread.join()
