#!/usr/bin/env python3
"""A gateway on a small machine: reads sensors, publishes, and loses nothing while the network or the power is away.

    python3 gateway.py --broker mqtt://broker --broker coap://broker --buffer /var/lib/gateway

Every reading goes to disk before it goes anywhere, and leaves the disk when a broker has acknowledged it. Readings that
nobody could be told within a day are not worth telling any more. Commands come back on `gateway/<name>/command`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import signal
import socket
import time
from pathlib import Path

from thalweg import BufferFull, Reliability, Retain, Success, TimedOut, aio

log = logging.getLogger("gateway")


def sensors(places: list[str]) -> dict[str, Path]:
    """Sensors by name: files that hold a number, as the kernel shows thermometers."""
    found = {}
    for place in places:
        path = Path(place)
        found[path.parent.name if path.name == "temp" else path.stem] = path
    return found


def read(path: Path) -> float:
    """A thermometer of Linux counts thousandths of a degree."""
    number = float(path.read_text())
    return number / 1000 if path.name == "temp" else number


async def measure(client: aio.Client, name: str, places: dict[str, Path], every: float, rounds: int) -> None:
    done = 0
    while rounds == 0 or done < rounds:
        for sensor, path in places.items():
            try:
                body = json.dumps({"value": read(path), "at": round(time.time(), 3)})
            except (OSError, ValueError) as error:
                log.warning("%s cannot be read: %s", path, error)
                continue
            try:
                client.publish_message(
                    body,
                    "",
                    f"gateway/{name}/{sensor}",
                    reliability=Reliability.EXACTLY_ONCE,
                    lifespan=86_400,
                    content_type="application/json",
                )
            except BufferFull:
                # The disk holds what it may. New readings are worth less than a gap that somebody hears of.
                log.error("the buffer is full: the reading of %s is lost", sensor)
        done += 1
        await asyncio.sleep(every)


async def obey(client: aio.Client, name: str) -> None:
    async for command in await client.subscribe(f"gateway/{name}/command"):
        log.info("command: %s", command.payload.decode(errors="replace"))
        if command.payload == b"explain" and command.reply_to:
            await client.publish(command.reply_to, client.explain(), correlation=command.correlation)


async def tell(client: aio.Client, every: float) -> None:
    while True:
        await asyncio.sleep(every)
        log.info("%s", client.explain())


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", action="append", required=True, help="a way to the broker; several times")
    parser.add_argument("--buffer", type=Path, required=True, help="folder for readings that wait")
    parser.add_argument("--name", default=socket.gethostname(), help="the gateway's name")
    parser.add_argument("--sensor", action="append", help="a file that holds a number; default: thermal_zone0")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between two readings")
    parser.add_argument("--rounds", type=int, default=0, help="stop after so many readings; 0: never")
    parser.add_argument("--objective", default="bytes", help="latency, bytes or energy")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    places = sensors(args.sensor or ["/sys/class/thermal/thermal_zone0/temp"])

    async with aio.connect(
        *args.broker,
        client_id=f"gateway-{args.name}",
        objective=args.objective,
        buffer_folder=args.buffer,
        buffer_bytes=64 << 20,
    ) as client:
        client.publish_message("up", "", f"gateway/{args.name}/state", retain=Retain.SET)
        others = [asyncio.create_task(obey(client, args.name)), asyncio.create_task(tell(client, 3600))]
        work = asyncio.create_task(measure(client, args.name, places, args.every, args.rounds))
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, work.cancel)
        try:
            await work
        except asyncio.CancelledError:
            pass
        for task in others:
            task.cancel()
        try:
            farewell = await client.publish(f"gateway/{args.name}/state", "down", retain=Retain.SET, timeout=5)
        except TimedOut:
            farewell = Success.PENDING
        log.info("leaving; the broker %s", "knows" if farewell is Success.ACKNOWLEDGED else "does not know")


if __name__ == "__main__":
    asyncio.run(main())
