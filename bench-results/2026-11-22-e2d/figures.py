#!/usr/bin/env python3
"""Table of regrets and a drawing per condition, from the raw files of `thalweg bench suite E2d`; means over all repeats.

figures.py RUN_FOLDER OUT_FOLDER

All courses are taken, those that `summary.md` does not count (messages published late) as well. Latency is given twice: from
when a message should have been published, as the suite has it, and from when it was given to the client.
"""
import csv, math, pathlib, sys
from collections import defaultdict

RUN, OUT = map(pathlib.Path, sys.argv[1:3])
COLOURS = {"mqtt": "#1f77b4", "coap": "#ff7f0e", "adaptive": "#000000"}
BIN = 10


def rows(name):
    with open(RUN / name, newline="") as file:
        yield from csv.DictReader(file)


trials = {row["trial"]: row for row in rows("trials.csv")}
messages, samples = defaultdict(list), defaultdict(list)
for row in rows("messages.csv"):
    given, got = row["t_sent_us"], row["t_received_us"]
    messages[row["trial"]].append((int(row["t_intended_us"]) / 1e6, int(given) / 1e6 if given else None, int(got) / 1e6 if got else None))
for row in rows("timeline.csv"):
    samples[row["trial"]].append((int(row["t_us"]) / 1e6, int(row["bytes"]), row["publishes"], row["subscribes"]))


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else math.nan


def span(trial, begin, end):
    """Bytes per message, latency from intended and from given, in ms, of the messages of a span of seconds."""
    some = [it for it in messages[trial] if begin <= it[0] < end]
    first = next(it for it in samples[trial] if it[0] >= begin)
    last = next((it for it in samples[trial] if it[0] >= end), samples[trial][-1])
    came = [it for it in some if it[1] is not None and it[2] is not None]
    return (last[1] - first[1]) / max(1, len(some)), mean(1e3 * (it[2] - it[0]) for it in came), mean(1e3 * (it[2] - it[1]) for it in came)


conditions = defaultdict(lambda: defaultdict(list))
for number, trial in trials.items():
    conditions[int(trial["payload_bytes"]), int(trial["delay_us"]) // 1000][trial["way"]].append(number)

table = ["| payload, delay | objective | by step: adaptive / MQTT / CoAP | regret | of repeats | lost, repeated, out of order | moves of publisher, subscriber |", "|---|---|---|---|---|---|---|"]
for (payload, delay), ways in sorted(conditions.items()):
    one = trials[ways["mqtt"][0]]
    step = int(one["step_us"]) / 1e6
    steps = [(i * step, (i + 1) * step) for i in range(len(one["loss_ppm"].split(";")))]
    cost = lambda way, part: [mean(span(number, *it)[part] for number in ways[way]) for it in steps]
    for goal, what, part in [("bytes", "B/message", 0), ("latency", "ms", 1), ("latency", "ms since given", 2)]:
        way = f"adaptive-{goal}"
        if way not in ways:
            continue
        fixed = [min(pair) for pair in zip(cost("mqtt", part), cost("coap", part))]
        regret = lambda costs: f"{100 * (sum(costs) / sum(fixed) - 1):.1f} %"
        singles = [regret([span(number, *it)[part] for it in steps]) for number in ways[way]]
        cells = " · ".join(" / ".join(f"{it:.0f}" for it in some) for some in zip(cost(way, part), cost("mqtt", part), cost("coap", part)))
        faults = ", ".join(str(sum(int(trials[number][key]) for number in ways[way])) for key in ("lost", "duplicates", "out_of_order"))
        moves = lambda column: sum(sum(a[column] != b[column] for a, b in zip(samples[number], samples[number][1:])) for number in ways[way])
        table.append(f"| {payload} B, {delay} ms | {goal} ({what}) | {cells} | **{regret(cost(way, part))}** | {', '.join(singles)} | {faults} | {moves(2)}, {moves(3)} |")
    # The drawing: loss, latency (logarithmic), bytes; the strip says over what the adaptive client published and listened.
    end = steps[-1][1]
    bins = [(at, at + BIN) for at in range(0, int(end), BIN)]
    for goal in ("bytes", "latency"):
        way = f"adaptive-{goal}"
        if way not in ways:
            continue
        x = lambda t: 70 + 700 * t / end
        svg = [f'<svg xmlns="http://www.w3.org/2000/svg" width="800" height="600" font-family="sans-serif" font-size="12"><rect width="800" height="600" fill="white"/>',
               f'<text x="70" y="18" font-size="14">E2d, {payload} B, {delay} ms one way, objective {goal}; means of {BIN} s over {len(ways[way])} repeat(s)</text>']
        line = lambda x1, y1, x2, y2, colour="#ccc": svg.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>')
        text = lambda at, y, words, anchor="end": svg.append(f'<text x="{at:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>')
        losses = [int(it) / 1e4 for it in one["loss_ppm"].split(";")]
        for loss, (begin, until) in zip(losses, steps):
            svg.append(f'<rect x="{x(begin):.1f}" y="{80 - 1.6 * loss:.1f}" width="{x(until) - x(begin):.1f}" height="{1.6 * loss:.1f}" fill="#ddd"/>')
            text((x(begin) + x(until)) / 2, 76, f"{loss:.0f} % lost", "middle")
        for height, column, who in [(88, 2, "publishes"), (102, 3, "listens")]:
            text(66, height + 10, who)
            looks = [it for it in samples[ways[way][0]] if it[0] < end]
            turns = [it for at, it in enumerate(looks) if at == 0 or it[column] != looks[at - 1][column]]
            for a, until in zip(turns, [it[0] for it in turns[1:]] + [end]):
                svg.append(f'<rect x="{x(a[0]):.1f}" y="{height}" width="{x(until) - x(a[0]):.1f}" height="12" fill="{COLOURS.get(a[column], "#eee")}"/>')
        for top, part, name, is_log in [(130, 1, "latency, ms", True), (360, 0, "bytes per message", False)]:
            lines = {it: [mean(span(number, *some)[part] for number in ways[it]) for some in bins] for it in ("mqtt", "coap", way)}
            most = max(max(it) for it in lines.values()) * 1.1
            low, high = (0, math.ceil(math.log10(most))) if is_log else (0, most)
            y = lambda v: top + 200 - 200 * min(1, max(0, ((math.log10(max(v, 1)) if is_log else v) - low) / (high - low)))
            for mark in [10**n for n in range(high + 1)] if is_log else range(0, int(most), 200):
                line(70, y(mark), 770, y(mark))
                text(66, y(mark) + 4, mark)
            text(74, top + 12, name, "start")
            for it, values in lines.items():
                points = " ".join(f"{x(begin + BIN / 2):.1f},{y(value):.1f}" for (begin, _), value in zip(bins, values))
                svg.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[it.split("-")[0]]}" stroke-width="{2.5 if it == way else 1.5}"/>')
        for at, it in enumerate(("mqtt", "coap", way)):
            line(300 + 160 * at, 578, 330 + 160 * at, 578, COLOURS[it.split("-")[0]])
            text(335 + 160 * at, 582, it if it == way else f"{it} all along", "start")
        for begin, _ in steps:
            text(x(begin), 574, f"{begin:.0f} s", "middle")
        svg.append("</svg>")
        (OUT / f"{goal}-{payload}B-{delay}ms.svg").write_text("\n".join(svg) + "\n")
print("\n".join(table))
