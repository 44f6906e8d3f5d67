"""Every block of code of docs/coming-from-paho.md runs: paho's beside ours, against one broker, in the order of the page."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from conftest import TREE

PAGE = TREE / "docs" / "coming-from-paho.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if PAGE.is_file() else []
SECTIONS = [block.splitlines()[0].removeprefix("# ") for block in BLOCKS]


def test_the_page_has_blocks_of_both():
    both = [any(name in block for block in BLOCKS) for name in ("import paho.mqtt", "import thalweg")]
    assert both == [True, True] and len(set(SECTIONS)) == len(SECTIONS)


@pytest.mark.parametrize("block", BLOCKS, ids=SECTIONS)
def test_a_block_runs(broker, tmp_path, block):
    port = broker.ports["mqtt"]
    program = block.replace('"localhost", 1883', f'"127.0.0.1", {port}').replace("mqtt://localhost", f"mqtt://127.0.0.1:{port}")
    program = program.replace("coap://localhost", broker.url("coap")).replace("/var/lib/pump", str(tmp_path / "buffer"))
    assert str(port) in program, "it talks to the broker of the test"
    ran = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    expected = re.findall(r"# prints: (.*)", block)
    assert ran.stdout.splitlines() == expected
