#!/usr/bin/env python3
"""Runs the studies and makes docs/results from what they measured.

    measure/publish_results.py                          # install, run (about 20 minutes), publish
    measure/publish_results.py --raw DIR --resume       # go on with a run that was interrupted, then publish
    measure/publish_results.py --raw DIR --publish-only # make docs/results of a run that is there
    measure/publish_results.py --study E3 --repeats 4   # measure one study anew; the others stay as they are

Wanted: a machine without other work, root (networks, packages, real-time priority), an optimised build at
target/release/thalweg (or --program) with thalweg-bench beside it. What is measured against is installed before the clock
runs. Only what the page is drawn from is kept: rows (compressed), tables and verdicts, no histograms and no messages.
docs/results/README.md is written, too.
"""

import argparse
import gzip
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
KEPT = ["cells.jsonl", "figures"]
STUDIES = {
    "E1": "three classes of traffic through brokers of several protocols",
    "E2": "MQTT and CoAP through a link that loses packets",
    "E2d": "the client that chooses its protocol while the loss changes",
    "E3": "floods, periods and neighbours over 95 Mbit/s",
    "E4": "MQTT, AMQP and STOMP on one device",
    "E5": "shared subscriptions that know the state of their members",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "target/release/thalweg")
    parser.add_argument("--budget", default="quick", choices=["quick", "standard", "paper"])
    parser.add_argument("--seed", default="101")
    parser.add_argument("--study", action="append", default=[], choices=STUDIES, help="only this one, beside what is published")
    parser.add_argument("--repeats", help="of every cell, with --study")
    parser.add_argument("--raw", type=pathlib.Path, help="folder of the run; default: target/results-TIME")
    parser.add_argument("--to", type=pathlib.Path, default=ROOT / "docs/results")
    parser.add_argument("--like", action="append", default=[], help="only such cells of E1 to E4: to try this script")
    parser.add_argument("--commit", help="what the program was built of; default: what is checked out")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--publish-only", action="store_true")
    args = parser.parse_args()
    args.program = args.program.resolve()
    raw = args.raw or ROOT / f"target/results-{int(time.time())}"
    if not args.publish_only:
        run(args, raw)
    publish(args, raw)


def run(args, raw):
    bench = [str(args.program), "bench"]
    # Ends with 1 if something is missing that no package has: the page says what was not measured.
    subprocess.run([*bench, "doctor", "--install"], stdout=subprocess.DEVNULL)
    more = ["--resume"] if args.resume else []
    more += ["--repeats", args.repeats] if args.repeats else []
    more += [word for like in args.like for word in ("--like", like)]
    environment = {**os.environ, "THALWEG_BIN": str(args.program)}
    for suite, folder in [(study, raw / study) for study in args.study] or [("all", raw)]:
        command = [*bench, "suite", suite, "--budget", args.budget, "--seed", args.seed, "--out", str(folder), *more]
        code = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL).returncode
        # 2 and 3: something does not count, or did not come out. That is for the page to say.
        if code not in (0, 2, 3):
            sys.exit(f"the run ended with {code}; {raw} has what there is, --raw {raw} --resume goes on")


def publish(args, raw):
    there = args.to
    studies = args.study or [study for study in STUDIES if (raw / study).is_dir()]
    for run_of in [raw / study for study in args.study] or [raw]:
        if json.loads((run_of / "run.json").read_text()).get("interrupted", True):
            sys.exit(f"{run_of} is of a run that was interrupted; --raw {raw} --resume goes on")
    for name in args.study or [*STUDIES, "run.json", "summary.md", "report.html", "shapes.json", "junit.xml"]:
        path = there / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    there.mkdir(parents=True, exist_ok=True)
    built_of = args.commit or commit()
    if not args.study:
        about_of(raw, there, built_of)
    for study in studies:
        take(raw / study, there / study)
        about_of(raw / study, there / study, built_of)
    about = json.loads((there / "run.json").read_text())
    columns = next(raw.glob("E*/columns.md"), None)
    if columns:
        shutil.copy(columns, there / "columns.md")
    rendered = subprocess.run([str(args.program), "bench", "report", str(there)], stdout=subprocess.DEVNULL)
    if rendered.returncode not in (0, 2, 3):
        sys.exit(f"thalweg bench report {there} ended with {rendered.returncode}")
    # Those are on the page of all studies.
    for study in STUDIES:
        for name in ("report.html", "junit.xml"):
            (there / study / name).unlink(missing_ok=True)
        compress(there / study / "cells.jsonl")
    (there / "README.md").write_text(readme(there, about))
    print(f"written: {there}; now look at report.html and README.md, and run measure/report_pages.py {there}/report.html")


def about_of(source, target, built_of):
    """Copies run.json, without paths of this machine, with what the program was built of."""
    about = json.loads((source / "run.json").read_text())
    words = about["command_line"]
    words = [word for before, word in zip(words, words[1:]) if "--out" not in (before, word)]
    about["command_line"], about["built_of"] = ["thalweg", *words], built_of
    (target / "run.json").write_text(json.dumps(about, indent=2) + "\n")


def take(source, target):
    target.mkdir(exist_ok=True)
    for path in [source / name for name in KEPT]:
        if path.is_dir():
            shutil.copytree(path, target / path.name, dirs_exist_ok=True)
        elif path.exists():
            shutil.copy(path, target / path.name)


def compress(path):
    """The laboratory reads PATH.gz where PATH is missing."""
    if path.exists():
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes(), 9, mtime=0))
        path.unlink()


def readme(there, about):
    shapes = json.loads((there / "shapes.json").read_text())["shapes"]
    present = [study for study in STUDIES if (there / study).is_dir()]
    links = ", ".join(f"[{study}]({study}/)" for study in present)
    later = [told for study in present if (told := apart(study, there / study, about))]
    one_hour = f"All\nstudies are of one machine and one hour{''.join(f', but {told}' for told in later)}."
    build = "an optimised build" if about["is_optimised"] else "a debug build: these are no results"
    text = f"""# Results: a run of the studies

One page has it all: [report.html](report.html), opens without a network. The raw files of each study are beside it: {links}, with
[their columns](columns.md). How each number was obtained, and what it does not say, is in [../laboratory.md](../laboratory.md) and
[../bench.md](../bench.md). The same as plain text, statement by statement: [summary.md](summary.md). This folder is written by `measure/publish_results.py`.

## What this run is

{day(about)}, budget {about["budget"]}, seed {about["seed"]}, {build} of {about["built_of"]}. {about["cpu"]} with **{about["cores"]} cores for broker,
clients and laboratory**, kernel {about["kernel"]}, load before {about["load_average_at_start"].split()[0]}; {about["lasted_s"]:.0f} s in all. {one_hour}
What this budget leaves open (most cells have one repeat, which has no interval) a run with `--budget
standard` tells; one of 22 and 23 November is in [bench-results](../../bench-results/2026-11-22-standard/README.md).

| study | what | trials | count |
|---|---|--:|--:|
"""
    for study in present:
        trials, count = counted(there / study)
        text += f"| {study} | {STUDIES[study]} | {trials} | {count} |\n"
    for failed in about.get("failed") or []:
        text += f"\n{failed['suite']} could not be run: {failed['why']}\n"
    text += """
What does not count was limited by what sends, held back by the broker, or came to no regular end; the page lists each with its reason.

## What came out

Each statement of a study twice: with the brokers that the study used or their stand-ins, and with ours. The figures are on the page.

| study | statement | with theirs | with ours |
|---|---|---|---|
"""
    for shape in shapes:
        text += f"| {shape['study']} | {shape['id']} | {shape['baseline']['verdict']} | {shape['ours']['verdict']} |\n"
    return text + """
## What is not in it

Histograms, seconds and events, E5's messages and E2d's: distributions are drawn from the tables in `figures/`. `thalweg bench report docs/results`
makes the page from that, in seconds.
""" + "".join(kept_of_before(study, there / study) for study in present)


def apart(study, folder, whole):
    """What is said of a study that was measured anew since the run of all; of the others nothing."""
    about = json.loads((folder / "run.json").read_text())
    if whole["started_unix_s"] <= about["started_unix_s"] <= whole["finished_unix_s"]:
        return None
    command = " ".join(about["command_line"])
    return f"{study}: {day(about)}, on an {about['cpu']} with {about['cores']} cores, with a build of {about['built_of']} (`{command}`)"


def kept_of_before(study, folder):
    """What is said of a study whose files were made of those of an earlier form, and what else is kept of it."""
    converted = json.loads((folder / "run.json").read_text()).get("converted")
    others = sorted(path.name for path in folder.iterdir() if path.name == "explained.md" or path.suffix == ".svg")
    links = ", ".join(f"[{name}]({study}/{name})" for name in others)
    return f"\n{study}: {converted}.{f' Beside it: {links}.' if links else ''}\n" if converted else ""


def day(about):
    return time.strftime("%-d %B %Y, %H:%M UTC", time.gmtime(about["started_unix_s"]))


def counted(folder):
    """Trials of a study, and those that count."""
    lines = gzip.decompress((folder / "cells.jsonl.gz").read_bytes()).decode().splitlines()
    rows = [json.loads(line)["row"]["standing"] for line in lines if line.strip()]
    return len(rows), sum(standing == "valid" for standing in rows)


def commit():
    found = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return found.stdout.strip() or "an unknown commit"


if __name__ == "__main__":
    main()
