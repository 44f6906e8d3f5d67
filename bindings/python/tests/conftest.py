"""A broker for the tests: ours, started with free ports of its own."""

from __future__ import annotations

import itertools
import os
import random
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[3]
PROGRAM = Path(os.environ.get("THALWEG", TREE / "target" / "debug" / "thalweg"))


@dataclass
class Broker:
    """Where it is, and the process."""

    ports: dict[str, int]
    folder: Path
    process: subprocess.Popen | None = None
    more: tuple[str, ...] = ()
    """Further settings, as NAME=VALUE."""

    def url(self, protocol: str) -> str:
        return f"{protocol}://127.0.0.1:{self.ports[protocol]}"

    @property
    def urls(self) -> list[str]:
        return [self.url(protocol) for protocol in ("mqtt", "coap", "amqp", "stomp")]

    def start(self) -> None:
        names = {"mqtt": "mqtt", "coap": "coap", "amqp": "amqp", "stomp": "stomp"}
        command = [str(PROGRAM), "serve", "--data", str(self.folder)]
        for protocol, listener in names.items():
            command += ["--set", f"listeners.{listener}.bind=127.0.0.1:{self.ports[protocol]}"]
        command += ["--set", f"admin.bind=127.0.0.1:{self.ports['admin']}", "--set", "shards=1", "--set", "presence.enabled=true"]
        for setting in self.more:
            command += ["--set", setting]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        for line in self.process.stderr:
            if " ready" in line:
                return
        raise RuntimeError(f"the broker did not start: {command}")

    def stop(self, kill: bool = False) -> None:
        if self.process is not None:
            self.process.kill() if kill else self.process.terminate()
            self.process.wait(30)
            self.process.stderr.close()
            self.process = None


def free_ports(count: int) -> list[int]:
    """Ports that are free for TCP and UDP now, none of them twice. They are below those that the system gives to outgoing
    connections, so that none is taken before the broker binds it, and beside those of the tests in Rust (21000-21999)."""
    return list(itertools.islice(filter(is_free, CANDIDATES), count))


CANDIDATES = itertools.cycle(random.Random(os.getpid()).sample(range(22000, 23000), 1000))


def is_free(port: int) -> bool:
    with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
        tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tcp.bind(("127.0.0.1", port))
            udp.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@pytest.fixture
def broker(tmp_path: Path):
    if not PROGRAM.is_file():
        pytest.fail(f"{PROGRAM} is not there: `cargo build`, or name the program in THALWEG")
    names = ["mqtt", "coap", "amqp", "stomp", "admin"]
    one = Broker(dict(zip(names, free_ports(len(names)))), tmp_path / "data")
    one.start()
    yield one
    one.stop()


def eventually(is_so, seconds: float = 30.0) -> bool:
    """Whether it becomes so in time. Patience, not a measurement."""
    until = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True
