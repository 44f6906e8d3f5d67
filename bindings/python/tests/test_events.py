"""Callbacks and the log: what they are told, in which thread, and what happens when they raise or block."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
import time
from queue import Queue

import pytest
import thalweg
from thalweg import Connected, Lost, Moved, Outcome, Success, aio

SECONDS = 30.0


def place(broker, protocol: str) -> str:
    return f"127.0.0.1:{broker.ports[protocol]}"


def test_a_broker_that_is_killed_and_comes_back_is_told_in_order(broker):
    told: Queue = Queue()
    callbacks = {name: told.put for name in ("on_connected", "on_lost", "on_moved", "on_outcome")}
    with thalweg.connect(broker.url("mqtt"), backoff=(0.01, 0.05), **callbacks) as client:
        assert told.get(timeout=SECONDS) == Connected("mqtt", place(broker, "mqtt"), False)
        first = client.publish_message("1", "", "a")
        assert told.get(timeout=SECONDS) == Outcome(first, Success.ACKNOWLEDGED, None)
        broker.stop(kill=True)
        lost = told.get(timeout=SECONDS)
        assert isinstance(lost, Lost) and lost.place == place(broker, "mqtt") and lost.why and not lost.is_final
        second = client.publish_message("2", "", "a")
        broker.start()
        assert told.get(timeout=SECONDS) == Connected("mqtt", place(broker, "mqtt"), False)
        assert told.get(timeout=SECONDS) == Outcome(second, Success.ACKNOWLEDGED, None)
    # All was told before the end, and the end is no loss.
    assert told.empty()


def test_a_switch_of_protocols_is_told(broker):
    moved: Queue = Queue()
    mqtt, stomp = broker.url("mqtt"), broker.url("stomp")
    broker.stop()
    only_stomp = ("listeners.mqtt.enabled=false", "listeners.coap.enabled=false", "listeners.amqp.enabled=false")
    with thalweg.connect(mqtt, stomp, backoff=(0.01, 0.05), on_moved=moved.put) as client:
        broker.more = only_stomp
        broker.start()
        assert client.publish("a", "by STOMP", timeout=SECONDS)
        assert moved.empty(), "the first choice is no switch"
        broker.stop()
        broker.more = ("listeners.stomp.enabled=false",)
        broker.start()
        assert client.publish("a", "by MQTT", timeout=SECONDS)
        expected = Moved("stomp", place(broker, "stomp"), "mqtt", place(broker, "mqtt"))
        assert moved.get(timeout=SECONDS) == expected
        assert client.status()["counts"]["switches"] == 1


def test_what_waits_on_disk_is_told_by_its_ticket_when_it_arrives(broker, tmp_path):
    broker.stop()
    told: Queue = Queue()
    with thalweg.connect(broker.url("mqtt"), buffer_folder=tmp_path / "buffer", backoff=(0.01, 0.05), on_outcome=told.put) as client:
        tickets = [client.publish_message(str(number), "", "a") for number in range(20)]
        client.stored(tickets[-1], timeout=SECONDS)
        assert told.empty()
        broker.start()
        assert [told.get(timeout=SECONDS) for _ in tickets] == [Outcome(it, Success.ACKNOWLEDGED, None) for it in tickets]


def test_a_callback_that_raises_is_logged_and_the_next_is_called(broker, caplog):
    told: Queue = Queue()

    def on_outcome(outcome: Outcome) -> None:
        told.put(outcome.ticket)
        raise SystemExit("not here") if outcome.ticket % 2 else ValueError("odd one")

    with thalweg.connect(broker.url("mqtt"), on_outcome=on_outcome) as client:
        tickets = [client.publish_message("x", "", "a") for _ in range(4)]
        assert client.flush(SECONDS)
    assert [told.get_nowait() for _ in tickets] == tickets
    raised = [record for record in caplog.records if record.message == "on_outcome raised"]
    assert len(raised) == 4 and all(record.exc_info for record in raised)


def test_a_callback_that_blocks_holds_up_callbacks_and_nothing_else(broker):
    is_held, told = threading.Event(), []

    def on_outcome(outcome: Outcome) -> None:
        is_held.wait(SECONDS)
        told.append((outcome.ticket, threading.current_thread().name))

    with thalweg.connect(broker.url("mqtt"), on_outcome=on_outcome) as client:
        subscription = client.subscribe("a", timeout=SECONDS)
        tickets = [client.publish_message(str(number), "", "a") for number in range(300)]
        assert client.flush(SECONDS)
        assert [subscription.next(SECONDS).payload for _ in tickets] == [str(number).encode() for number in range(300)]
        assert not told
        is_held.set()
    assert told == [(ticket, "thalweg-events") for ticket in tickets]


def test_close_waits_for_slow_callbacks_as_long_as_it_may(broker):
    told, is_held = [], threading.Event()

    def slow(outcome: Outcome) -> None:
        time.sleep(0.02)
        told.append(outcome.ticket)

    client = thalweg.connect(broker.url("mqtt"), on_outcome=slow)
    tickets = [client.publish_message("x", "", "a") for _ in range(25)]
    assert client.close(SECONDS)
    assert told == tickets
    client = thalweg.connect(broker.url("mqtt"), on_outcome=lambda _: is_held.wait())
    assert client.publish("a", "x", timeout=SECONDS)
    assert client.close(0), "it does not wait for one that blocks for ever"
    is_held.set()


def test_what_a_callback_does_with_its_client_works(broker):
    done: Queue = Queue()

    def on_connected(_: Connected) -> None:
        done.put(client.publish("a", "from a callback", timeout=SECONDS))
        done.put(client.close(SECONDS))

    ready = threading.Event()
    client = thalweg.connect(broker.url("mqtt"), on_connected=lambda event: ready.wait(SECONDS) and on_connected(event))
    ready.set()
    assert done.get(timeout=SECONDS) is Success.ACKNOWLEDGED
    assert done.get(timeout=SECONDS) is True


def test_in_a_loop_callbacks_are_called_by_the_loop(broker, caplog):
    told = []

    def on_outcome(outcome: Outcome) -> None:
        told.append((outcome.ticket, threading.current_thread(), asyncio.get_running_loop()))
        raise ValueError

    async def main() -> None:
        async with aio.connect(broker.url("mqtt"), on_outcome=on_outcome) as client:
            tickets = [client.publish_message("x", "", "a") for _ in range(50)]
        loop = asyncio.get_running_loop()
        assert told == [(ticket, threading.main_thread(), loop) for ticket in tickets]

    asyncio.run(main())
    assert sum(record.message == "on_outcome raised" for record in caplog.records) == 50


def test_callbacks_are_functions():
    async def later(_: object) -> None: ...

    for connect in (thalweg.connect, aio.connect):
        with pytest.raises(TypeError, match="on_lost is a function, not int"):
            connect("mqtt://127.0.0.1", on_lost=5)
        with pytest.raises(TypeError, match="on_lost is a plain function"):
            connect("mqtt://127.0.0.1", on_lost=later)


def test_the_log_has_levels_and_no_secrets(broker, caplog):
    caplog.set_level(logging.DEBUG, "thalweg")
    url = broker.url("mqtt").replace("://", "://alice:hunter2@")
    lost: Queue = Queue()
    with thalweg.connect(url, backoff=(0.01, 0.05), client_id="pump", on_lost=lost.put) as client:
        assert client.publish("a", "treasure", timeout=SECONDS)
        failed = client.publish_message("treasure", "", "a", lifespan=0)
        assert client.outcome(failed, timeout=SECONDS) is Success.FAILED
        broker.stop(kill=True)
        lost.get(timeout=SECONDS)
    log = [(record.levelname, record.getMessage()) for record in caplog.records if record.name == "thalweg"]
    at = place(broker, "mqtt")
    assert ("INFO", f"connected to {at} by mqtt") in log
    assert any(level == "WARNING" and words.startswith(f"message {failed} failed: ") for level, words in log)
    assert any(level == "WARNING" and words.startswith(f"connection to {at} by mqtt lost: ") for level, words in log)
    assert not [words for _, words in log if any(secret in words for secret in ("alice", "hunter2", "treasure"))]


def test_a_refused_log_in_is_an_error_in_the_log(tmp_path, broker, caplog):
    broker.stop()
    (tmp_path / "passwords").write_text("")
    broker.more = ("listeners.mqtt.anonymous=false", f"access.password_file={tmp_path / 'passwords'}")
    broker.start()
    told = threading.Event()
    caplog.handler.addFilter(lambda record: told.set() or True)
    with thalweg.connect(broker.url("mqtt").replace("://", "://alice:hunter2@")):
        assert told.wait(SECONDS)
    record = next(record for record in caplog.records if record.name == "thalweg")
    assert record.levelname == "ERROR" and "is not reached by mqtt" in record.getMessage()
    assert "hunter2" not in record.getMessage()


def test_nothing_is_printed_by_who_does_not_configure_logging(broker):
    program = f"""
import thalweg
with thalweg.connect({broker.url("mqtt")!r}) as client:
    ticket = client.publish_message("x", "", "a", lifespan=0)
    assert client.outcome(ticket, timeout=30) is thalweg.Success.FAILED
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
