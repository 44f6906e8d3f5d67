"""What docs/five-minutes.md shows is what runs."""

from __future__ import annotations

import subprocess
import sys

from conftest import TREE

READING = TREE / "examples" / "reading" / "reading.py"


def test_the_lines_of_the_tutorial_run(broker):
    lines = READING.read_text()
    assert f"```python\n{lines}```" in (TREE / "docs" / "five-minutes.md").read_text()
    for protocol in ("mqtt", "coap"):
        lines = lines.replace(f'"{protocol}://127.0.0.1"', f'"{broker.url(protocol)}"')
    ran = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    first, *words = ran.stdout.splitlines()
    assert first == "plant/1/temperature 21.5"
    assert any("mqtt" in line.lower() for line in words), ran.stdout
