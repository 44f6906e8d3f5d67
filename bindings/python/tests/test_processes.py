"""Forks, and the end of the interpreter: nothing hangs, crashes or is sent twice."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest
import thalweg

SECONDS = 30.0


def run(program: str, *arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_child_is_told_and_the_parent_goes_on(broker):
    ran = run(
        """
        import gc, os, sys, thalweg, warnings
        warnings.simplefilter("ignore")
        url = sys.argv[1]
        client = thalweg.connect(url)
        messages = client.subscribe("a", timeout=30)
        assert client.publish("a", "before", timeout=30)
        for _ in range(20):
            # What waits and moves while we fork: locks are held at any moment.
            for number in range(50):
                client.publish_message("during", "", "b")
            child = os.fork()
            if child == 0:
                for use in (
                    lambda: client.publish("a", "x"),
                    lambda: client.publish_message("x", "", "a"),
                    client.status,
                    client.explain,
                    lambda: messages.next(timeout=1),
                    client.close,
                ):
                    try:
                        use()
                    except thalweg.ThalwegError as error:
                        assert "process before the fork" in str(error), error
                    else:
                        os._exit(3)
                del client, messages, use
                gc.collect()
                # A client of its own works.
                with thalweg.connect(url) as own:
                    os._exit(0 if own.publish("c", "child", timeout=30) else 4)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert client.publish("a", "after", timeout=30)
        assert [messages.next(timeout=30).payload for _ in range(2)] == [b"before", b"after"]
        assert client.close(30)
        """,
        broker.url("mqtt"),
    )
    assert ran.returncode == 0, ran.stderr


ENDINGS = {
    "nothing was closed": "",
    "a daemon thread waits for messages": """
        import threading
        threading.Thread(target=messages.next, daemon=True).start()
        """,
    "a callback is at work": """
        client.publish("a", "x", timeout=30)
        is_called.wait(30)
        """,
    "the program fails": "raise ValueError('on purpose')",
    "it was closed": "client.close()",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_interpreter_ends_whatever_the_client_does(broker, ending):
    program = """
        import sys, threading, time, thalweg
        is_called = threading.Event()
        def on_outcome(_):
            is_called.set()
            time.sleep(3600)
        client = thalweg.connect(sys.argv[1], on_outcome=on_outcome)
        messages = client.subscribe("silence", timeout=30)
        """
    ran = run(textwrap.dedent(program) + textwrap.dedent(ENDINGS[ending]), broker.url("mqtt"))
    if ending == "the program fails":
        assert ran.returncode == 1 and "on purpose" in ran.stderr
    else:
        assert (ran.returncode, ran.stderr) == (0, "")


def test_what_is_on_disk_survives_a_process_that_is_killed_in_a_callback(broker, tmp_path):
    folder = str(tmp_path / "buffer")
    broker.stop()
    ran = run(
        """
        import os, signal, sys, threading, thalweg
        url, folder = sys.argv[1:]
        client = thalweg.connect(url, buffer_folder=folder, on_outcome=lambda _: os.kill(os.getpid(), signal.SIGKILL))
        tickets = [client.publish_message(str(number), "", "kept") for number in range(20)]
        client.stored(tickets[-1], timeout=30)
        client.publish("kept", "late", lifespan=0, timeout=30)
        threading.Event().wait(30)
        """,
        broker.url("mqtt"),
        folder,
    )
    assert ran.returncode == -9, ran.stderr
    broker.start()
    with thalweg.connect(broker.url("mqtt")) as reader:
        messages = reader.subscribe("kept", timeout=SECONDS)
        with thalweg.connect(broker.url("mqtt"), buffer_folder=folder) as client:
            assert [int(messages.next(timeout=SECONDS).payload) for _ in range(20)] == list(range(20))
            assert client.flush(SECONDS)


@pytest.mark.parametrize(
    "end, code",
    [
        ("with connect() as client: raise SystemExit(3)", 3),
        ("client = connect(); raise SystemExit(3)", 3),
        ("client = connect()", 0),
    ],
)
def test_an_open_client_does_not_change_how_a_process_ends(end, code):
    """Threads that wait in native code must be gone when the interpreter ends: in a wheel they crashed."""
    program = f"import thalweg\nconnect = lambda: thalweg.connect('mqtt://127.0.0.1:9')\n{end}"
    ended = subprocess.run([sys.executable, "-c", program], timeout=60)
    assert ended.returncode == code
