"""What type checkers make of programs that use the package: misspelt options are found."""

from __future__ import annotations

import subprocess
import sys

import pytest

RIGHT = """
import thalweg
from thalweg import aio

def main() -> None:
    with thalweg.connect("mqtt://127.0.0.1", objective="bytes", buffer_messages=10) as client:
        ticket: int = client.publish_message("21.5", "", "a", priority=7, properties={"unit": "C"})
        outcome: thalweg.Success = client.outcome(ticket, timeout=1)
        why: str | None = client.why_failed(ticket)
        print(outcome, why)

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
