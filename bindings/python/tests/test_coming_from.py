"""Every block of code of the pages for those who come from paho and aiocoap runs: paho's beside ours, against one broker, in
the order of the page."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from conftest import TREE

PAGES = [TREE / "docs" / f"coming-from-{name}.md" for name in ("paho", "aiocoap")]
ALL = [block for page in PAGES if page.is_file() for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)]
# What needs aiocoap runs with the foreign clients, by crates/thalweg-tests/interop/guides.py.
BLOCKS = [block for block in ALL if "import aiocoap" not in block]
SECTIONS = [block.splitlines()[0].removeprefix("# ") for block in BLOCKS]


def test_the_pages_have_blocks_of_both():
    both = [any(name in block for block in BLOCKS) for name in ("import paho.mqtt", "import thalweg")]
    assert both == [True, True] and len(set(SECTIONS)) == len(SECTIONS)


@pytest.mark.parametrize("block", BLOCKS, ids=SECTIONS)
def test_a_block_runs(broker, tmp_path, block):
    port = broker.ports["mqtt"]
    program = block.replace('"localhost", 1883', f'"127.0.0.1", {port}').replace("mqtt://localhost", f"mqtt://127.0.0.1:{port}")
    program = re.sub(r"coap://(localhost|127\.0\.0\.1)", broker.url("coap"), program)
    program = program.replace("/var/lib/pump", str(tmp_path / "buffer"))
    assert "127.0.0.1:" in program or str(port) in program, "it talks to the broker of the test"
    ran = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    expected = re.findall(r"# prints: (.*)", block)
    assert ran.stdout.splitlines() == expected
