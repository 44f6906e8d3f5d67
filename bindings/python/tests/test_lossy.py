"""README's promise, with stock receivers: published with `auto` through a network that loses a tenth of all packets each
way, each message reaches `mosquitto_sub` and `coap-client`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from queue import Empty, Queue

import pytest

from conftest import PROGRAM

MESSAGES = 60
# A run takes seconds; but each time that the same packet or its acknowledgement is lost, the pause before the next is twice as
# long. With a fifth of all packets lost some took minutes.
FLUSH = 240
PATIENCE = FLUSH + 30
CLIENT, BROKER = "ep", "br"

PUBLISHER = """
import sys
import thalweg

count = int(sys.argv[1])
with thalweg.connect("mqtt://10.80.2.2", "coap://10.80.2.2", objective="bytes") as client:
    tickets = [client.publish_message(f"message {number}", "", "lossy/1") for number in range(count)]
    client.flush(timeout=float(sys.argv[2]))
    sys.exit(sum(client.is_publish_success(ticket) is not thalweg.Success.ACKNOWLEDGED for ticket in tickets))
"""


class Network:
    """Three namespaces, as `thalweg bench net` makes them, and what runs in them."""

    def __init__(self, loss: str) -> None:
        self.name = f"py{os.getpid()}"
        self.children: list[subprocess.Popen] = []
        made = subprocess.run([PROGRAM, "bench", "net", "up", self.name, "--loss", loss], capture_output=True, text=True)
        if made.returncode != 0:
            pytest.skip(f"no network can be made here: {made.stderr.strip()}")

    def start(self, side: str, *command: str, **options) -> subprocess.Popen:
        inside = ["ip", "netns", "exec", f"thalweg-{self.name}-{side}", *map(str, command)]
        child = subprocess.Popen(inside, text=True, **options)
        self.children.append(child)
        return child

    def lines(self, side: str, *command: str) -> Queue:
        child = self.start(side, *command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        lines: Queue = Queue()

        def forward() -> None:
            for line in child.stdout:
                lines.put(line.strip())

        threading.Thread(target=forward, daemon=True).start()
        return lines

    def down(self) -> None:
        for child in self.children:
            child.kill()
            child.wait()
        subprocess.run([PROGRAM, "bench", "net", "down", self.name], capture_output=True)


@pytest.fixture
def network():
    coap_client = shutil.which("coap-client-openssl") or shutil.which("coap-client")
    if os.geteuid() != 0 or not shutil.which("mosquitto_sub") or not coap_client or not shutil.which("stdbuf"):
        pytest.skip("needs root, mosquitto_sub and coap-client")
    one = Network("10%")
    one.coap_client = coap_client
    yield one
    one.down()


def wait_for(lines: Queue, words: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while words not in lines.get(timeout=max(0.1, deadline - time.monotonic())):
        pass


def messages(lines: Queue) -> list[str]:
    got, deadline = [], time.monotonic() + PATIENCE
    while len(got) < MESSAGES:
        try:
            line = lines.get(timeout=max(0.1, deadline - time.monotonic()))
        except Empty:
            return got
        if line.startswith("message "):
            got.append(line)
    return got


def test_what_auto_publishes_through_a_lossy_network_reaches_stock_receivers(network: Network, tmp_path: Path) -> None:
    settings = []
    for protocol, port in (("mqtt", 1883), ("coap", 5683)):
        settings += ["--set", f"listeners.{protocol}.bind=0.0.0.0:{port}", "--set", f"listeners.{protocol}.anonymous=true"]
    settings += ["--set", "listeners.websocket.enabled=false", "--set", "admin.enabled=false"]
    wait_for(network.lines(BROKER, PROGRAM, "serve", "--data", tmp_path / "data", *settings), "ready")

    # What they print waits in a buffer when it goes to a pipe.
    subscribe = ["mosquitto_sub", "-h", "127.0.0.1", "-t", "lossy/+", "-q", "1", "-F", "%p", "-d"]
    mqtt = network.lines(BROKER, "stdbuf", "-oL", *subscribe)
    wait_for(mqtt, "SUBACK")
    # A queue: an observation alone is of a state, and what follows too fast it would be told the newest of.
    observe = [network.coap_client, "-w", "-s", "300", "-m", "get", "coap://127.0.0.1/ps/data/lossy/1?queue=1000"]
    coap = network.lines(BROKER, "stdbuf", "-o0", *observe)
    # It prints values only: the first that it prints shows that it observes.
    deadline = time.monotonic() + PATIENCE
    while True:
        assert time.monotonic() < deadline, "coap-client observes"
        publish = ["mosquitto_pub", "-h", "127.0.0.1", "-t", "lossy/1", "-m", "is anybody there"]
        assert network.start(BROKER, *publish).wait(PATIENCE) == 0
        try:
            if "is anybody there" in coap.get(timeout=0.1):
                break
        except Empty:
            pass

    publisher = network.start(CLIENT, sys.executable, "-c", PUBLISHER, str(MESSAGES), str(FLUSH))
    assert publisher.wait(PATIENCE) == 0, "every message is acknowledged"
    wanted = [f"message {number}" for number in range(MESSAGES)]
    assert messages(mqtt) == wanted, "mosquitto_sub"
    assert messages(coap) == wanted, "coap-client"
