"""What the devices of the demonstration say, and the check of what arrived. Needs nothing but Python 3.

    sensors.py vibration SENSOR COUNT     binary samples of 36 bytes, one per line, in hex
    sensors.py car NAME COUNT             status of a car, one JSON object per line
    sensors.py camera FILE NUMBER         a picture of about 30 KB (PNG) into FILE
    sensors.py check FOLDER               compares what the subscribers wrote with what was published
"""

import hashlib
import json
import math
import random
import struct
import sys
import zlib
from pathlib import Path

# A vibration sample, big-endian, 36 bytes:
#   time in ns (8) | sensor (4) | sequence (4) | x, y, z in g (4 each) | temperature in °C (4) | status bits (4)
SAMPLE = struct.Struct(">QIIffffI")
START_NS = 1_795_000_000_000_000_000

SENSORS = 3
SAMPLES = 500
CARS = ["car-1", "car-2", "car-3", "car-4", "car-5"]
STATUSES = 40
PICTURES = 5


def vibration(sensor, count):
    noise = random.Random(sensor)
    for sequence in range(count):
        phase = sequence / 20 + sensor
        axes = [math.sin(phase + axis) + noise.gauss(0, 0.05) for axis in range(3)]
        sample = SAMPLE.pack(START_NS + sequence * 1_000_000, sensor, sequence, *axes, 40 + sensor + phase / 100, 0)
        yield sample


def car(name, count):
    noise = random.Random(name)
    latitude, longitude, charge = 48.137, 11.575, 92.0
    for sequence in range(count):
        latitude += noise.uniform(-1e-4, 1e-4)
        longitude += noise.uniform(-1e-4, 1e-4)
        charge -= noise.uniform(0.01, 0.05)
        yield json.dumps(
            {
                "car": name,
                "sequence": sequence,
                "position": {"lat": round(latitude, 6), "lon": round(longitude, 6)},
                "speed_kmh": round(noise.uniform(0, 50), 1),
                "charge_percent": round(charge, 2),
                "doors": {"left": "closed", "right": "closed"},
            }
        )


def picture(number):
    """A grey picture of noise, which PNG cannot compress: 176 x 176 pixels are about 30 KB."""
    side = 176
    noise = random.Random(number)
    rows = b"".join(b"\0" + noise.randbytes(side) for _ in range(side))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def check(folder):
    faults = []

    def report(what, arrived, expected, remark=""):
        verdict = "ok" if arrived == expected else "WRONG"
        if verdict != "ok":
            faults.append(what)
        print(f"  {what:<46}{arrived:>6} of {expected:<6}{verdict:<6}{remark}")

    lines = (folder / "vibration").read_text().split()
    samples = [bytes.fromhex(line) for line in lines]
    expected = [sample for sensor in range(1, SENSORS + 1) for sample in vibration(sensor, SAMPLES)]
    right = len(set(samples) & set(expected))
    report("vibration samples, 36 B binary, QoS 0", right, len(expected), f"{sum(map(len, samples)):,} bytes")

    def in_order(name, lines):
        """How many of one car's lines came, up to the first that is not as sent."""
        mine = [line for line in lines if json.loads(line)["car"] == name]
        return sum(1 for got, sent in zip(mine, car(name, STATUSES)) if got == sent)

    messages = [json.loads(line) for line in (folder / "status").read_text().splitlines()]
    payloads = [message["payload"] for message in messages]
    fleet = sum(in_order(name, payloads) for name in CARS)
    report("car status, JSON, QoS 1, over WebSocket", fleet, len(CARS) * STATUSES, "in order for each car")

    last = {message["topic"]: message["payload"] for message in map(json.loads, (folder / "last").read_text().splitlines())}
    kept = sum(last.get(f"fleet/{name}/status") == list(car(name, STATUSES))[-1] for name in CARS)
    report("last status of each car, for a late subscriber", kept, len(CARS), "retained")

    shared = [(folder / f"worker-{number}").read_text().splitlines() for number in (1, 2)]
    both = sorted(shared[0] + shared[1])
    sent = sorted(status for name in CARS for status in car(name, STATUSES))
    report("car status, shared by two workers", len(both) if both == sent else 0, len(sent), f"{len(shared[0])} + {len(shared[1])}")

    sent = b"".join(picture(number) for number in range(PICTURES))
    arrived = (folder / "camera").read_bytes()
    same = PICTURES if hashlib.sha256(arrived).digest() == hashlib.sha256(sent).digest() else 0
    report("pictures, PNG, QoS 2", same, PICTURES, f"{len(arrived):,} bytes, identical")
    return 1 if faults else 0


def main(arguments):
    match arguments:
        case ["vibration", sensor, count]:
            for sample in vibration(int(sensor), int(count)):
                print(sample.hex())
        case ["car", name, count]:
            for status in car(name, int(count)):
                print(status)
        case ["camera", file, number]:
            Path(file).write_bytes(picture(int(number)))
        case ["check", folder]:
            return check(Path(folder))
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
