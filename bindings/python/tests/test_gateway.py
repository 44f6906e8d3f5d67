"""The example for a small machine does what it promises."""

from __future__ import annotations

import json
import subprocess
import sys

import thalweg
from conftest import TREE
from thalweg import Reliability

GATEWAY = TREE / "examples" / "gateway-python" / "gateway.py"


def test_what_was_read_while_the_network_was_away_arrives_once_and_in_order(broker, tmp_path):
    sensor = tmp_path / "boiler"
    sensor.write_text("21.5\n")
    command = [sys.executable, str(GATEWAY), "--buffer", str(tmp_path / "buffer"), "--name", "pi"]
    command += ["--broker", broker.url("mqtt"), "--broker", broker.url("coap"), "--sensor", str(sensor)]
    command += ["--every", "0.02", "--rounds", "20"]
    with thalweg.connect(broker.url("mqtt"), client_id="archive", session=60) as archive:
        readings = archive.subscribe("gateway/pi/boiler", reliability=Reliability.EXACTLY_ONCE, timeout=30)
        first = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert first.returncode == 0, first.stderr
        broker.stop()
        # Nobody is there: all 20 stay on disk.
        second = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert second.returncode == 0 and "does not know" in second.stderr, second.stderr
        broker.start()
        third = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert third.returncode == 0, third.stderr
        came = [json.loads(readings.next(timeout=60).payload) for _ in range(60)]
    assert all(reading["value"] == 21.5 for reading in came)
    times = [reading["at"] for reading in came]
    assert times == sorted(times)
    assert len(set(times)) > 50
