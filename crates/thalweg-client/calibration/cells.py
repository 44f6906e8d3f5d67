#!/usr/bin/env python3
"""Writes what tcp.py measured into the table of ../calibration.json: latencies, and bytes where the table has none.

    for each condition: unshare -n python3 tcp.py --loss 0.2 --rtt 0.05 --payload 2000 --rate 5 --seconds 40 >> runs.jsonl
    python3 cells.py runs.jsonl

A cell that is measured again replaces its latencies. tcp.py's --rtt is added to what its link takes by itself (some 0.3 ms).
"""
import json, pathlib, sys

PLACE = pathlib.Path(__file__).resolve().parents[1] / "calibration.json"
AXES = ("reliability", "payload_bytes", "loss_percent", "round_trip_ms", "rate_per_s")


def main():
    whole = json.loads(PLACE.read_text())
    table = {tuple(float(row[axis]) for axis in AXES): row for row in whole["table"] if row["protocol"] == "mqtt"}
    for line in pathlib.Path(sys.argv[1]).read_text().splitlines():
        run = json.loads(line)
        place = (run["qos"], run["payload"], round(run["loss"] * 100, 3), run["rtt"] * 1000, run["rate"])
        row = table.get(tuple(map(float, place)))
        if row is None:
            row = {"protocol": "mqtt", "medium": "stream"} | dict(zip(AXES, map(plain, place)))
            row |= {"overhead_bytes": run["overhead"], "bytes_per_message": run["bytes_per_message"]}
            whole["table"].append(row)
        row["latency_mean_ms"] = round(run["arrive"]["mean_ms"], 1)
        row["latency_p99_ms"] = round(run["arrive"]["p99_ms"])
        row["settle_mean_ms"] = round(run["settle"]["mean_ms"], 1)
    text = PLACE.read_text()
    head, tail = text[: text.index('  "table": [\n')], text[text.rindex("\n  ]") :]
    rows = ",\n".join("    " + json.dumps(row) for row in whole["table"])
    PLACE.write_text(head + '  "table": [\n' + rows + tail)


def plain(number):
    return int(number) if float(number).is_integer() else number


if __name__ == "__main__":
    main()
