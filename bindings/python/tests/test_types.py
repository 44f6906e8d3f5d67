"""What type checkers make of programs that use the package: misspelt options are found."""

from __future__ import annotations

import subprocess
import sys

import pytest

RIGHT = """
import ssl

import thalweg
from thalweg import aio

def main() -> None:
    with thalweg.connect("mqtt://127.0.0.1", objective="bytes", buffer_messages=10) as client:
        ticket: int = client.publish_message("21.5", "", "a", priority=7, properties={"unit": "C"})
        outcome: thalweg.Success = client.outcome(ticket, timeout=1)
        why: str | None = client.why_failed(ticket)
        print(outcome, why)

def peer() -> None:
    with thalweg.connect("zmtp://broker", peer_bind="0.0.0.0:5560", peers=["10.0.0.7:5560"]) as client:
        client.publish("a", "b", reliability=thalweg.Reliability.AT_MOST_ONCE)

def called(lost: thalweg.Lost) -> None:
    print(lost.place, lost.why)

def more(context: ssl.SSLContext) -> None:
    will = thalweg.Will("gone", "pump", retain=True)
    client = thalweg.connect("mqtts://h", will=will, on_lost=called, on_outcome=lambda it: print(it.why), ssl_context=context)
    jobs = client.subscribe("jobs", settle_by_hand=True)
    jobs.settle()
    granted: thalweg.Reliability = jobs.granted
    print(granted)

async def same() -> None:
    async with aio.connect("mqtt://127.0.0.1", via="mqtt") as client:
        await client.publish("a", b"1", lifespan=60)
"""

WRONG = [
    'thalweg.connect("mqtt://h", objectiv="bytes")',
    'thalweg.connect("mqtt://h", buffer_messages="many")',
    'thalweg.connect("mqtt://h").publish("a", "b", prority=7)',
    'thalweg.connect("mqtt://h").publish("a", 5)',
    'thalweg.aio.connect("mqtt://h", sesion=5)',
    'thalweg.connect("mqtt://h", on_lots=print)',
    'thalweg.connect("mqtt://h", on_lost=5)',
    'thalweg.connect("mqtt://h", on_lost=lambda lost: lost.reason)',
    'thalweg.connect("mqtt://h", will="gone")',
    'thalweg.connect("mqtt://h", ssl_context=True)',
    'thalweg.connect(peers=5560)',
    'thalweg.connect(peer_bind=5560)',
    'thalweg.connect("mqtt://h").subscribe("a", settle_by_hands=True)',
    'thalweg.Will(topc="a")',
]


def check(folder, program: str) -> subprocess.CompletedProcess[str]:
    file = folder / "program.py"
    file.write_text(program)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(folder / "cache"), str(file)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_a_right_program_is_right(tmp_path):
    pytest.importorskip("mypy")
    ran = check(tmp_path, RIGHT)
    assert ran.returncode == 0, ran.stdout


def test_what_is_misspelt_is_found(tmp_path):
    pytest.importorskip("mypy")
    program = "import thalweg.aio\n" + "\n".join(WRONG) + "\n"
    ran = check(tmp_path, program)
    errors = {int(line.split(":")[1]) for line in ran.stdout.splitlines() if ": error:" in line}
    assert errors == set(range(2, 2 + len(WRONG))), ran.stdout


def test_the_package_itself_is_typed(tmp_path):
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "-p", "thalweg"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout
