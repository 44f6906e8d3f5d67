"""Runs the commands of a guide as a reader would: block after block in one shell, in a clean directory.

    guides.py THALWEG [PAGE...]

Every block of `sh` or `python` runs, unless a comment above it says why not. The comment is invisible to readers; each of its
lines is one of (a single one may stand on the line of the comment itself):

    <!-- test
    not run: REASON                  the block is not run
    without `WORDS`: REASON          its lines that begin with WORDS are not run
    setup: COMMAND                   runs before the block
    wait: COMMAND                    in place of the block's next `sleep`: until COMMAND succeeds
    fails: `WORDS`                   its lines that begin with WORDS must fail
    beside: `WORDS`                  its commands that begin with WORDS start a broker, beside what follows
    put: PATH = OTHER                reads OTHER for PATH in the block
    file: NAME                       the block is the file NAME; also for blocks of other languages
    expect: TEXT                     the output has TEXT, after the TEXT of the expectation before
    -->

A page has a network of its own where the system allows it (`unshare --net`), so that the ports of the guides are free. No
clock decides: what must happen is waited for, and a page that takes longer than SECONDS_MAX fails.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from dataclasses import dataclass, field
from pathlib import Path

SECONDS_MAX = 120
TREE = Path(__file__).parents[3]
GUIDES = (
    "README.md",
    *(f"docs/{name}.md" for name in ("five-minutes", "choose-a-protocol", "secure-it", "production", "troubleshoot")),
    *(f"docs/coming-from-{name}.md" for name in ("mosquitto", "rabbitmq", "aiocoap")),
    *(f"docs/{name}.md" for name in ("operating", "journal")),
)
RUN = {"sh": "{}", "python": "venv/bin/python - <<'PY'\n{}PY\n"}
BLOCK = re.compile(r"(?:^ *<!-- test\s(?P<notes>.*?)-->\n)?^(?P<indent> *)```(?P<language>\w+)\n(?P<text>.*?)^ *```$", re.M | re.S)
PRELUDE = """
set -eE
trap 'echo "guide: failed: $BASH_COMMAND" >&2' ERR
[ -n "$OWN_NETWORK" ] && ip link set lo up
until_ok() { until eval "$1" >/dev/null 2>&1; do sleep 0.05; done; }
must_fail() { if "$@"; then echo "guide: did not fail: $*" >&2; exit 1; fi; }
ready() { until_ok 'curl -sf http://127.0.0.1:7883/readyz'; }
serve() { thalweg serve "$@" & ready; }
"""


@dataclass
class Block:
    line: int
    program: str
    expected: list[str] = field(default_factory=list)


class Fault(Exception):
    """What is wrong with a page, or with what its commands did."""


def read(page: Path) -> list[Block]:
    text = page.read_text()
    blocks = []
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start("text"))
        try:
            blocks.append(program(match, line))
        except Fault as why:
            raise Fault(f"{page}:{line}: {why}") from None
    return [block for block in blocks if block]


def program(match: re.Match[str], line: int) -> Block | None:
    body = textwrap.dedent(match["text"])
    notes = [note.strip().partition(": ")[::2] if "`" not in note else quoted(note) for note in (match["notes"] or "").splitlines() if note.strip()]
    before, file, expected, waits = [], None, [], []
    for word, rest in sorted(notes, key=lambda note: note[0] == "put"):
        if word == "not run":
            return None
        elif word == "setup":
            before.append(rest + "\n")
        elif word == "wait":
            waits.append(rest)
        elif word == "expect":
            expected.append(rest)
        elif word == "file":
            file = rest
        elif word == "put":
            path, _, other = rest.partition(" = ")
            body = changed(body, re.escape(path), other)
        elif word == "without":
            body = changed(body, rf"(?m)^{re.escape(rest)}.*\n", "")
        elif word == "fails":
            body = changed(body, rf"(?m)^(?={re.escape(rest)})", "must_fail ")
        elif word == "beside":
            body = changed(body, rf"(?m)^{re.escape(rest)}(?:.*\\\n)*.*$", r"{ \g<0>\n} & ready")
        else:
            raise Fault(f"no such note: {word}")
    if file:
        return Block(line, f"{''.join(before)}cat >'{file}' <<'GUIDE'\n{body}GUIDE\n", expected)
    if match["language"] not in RUN:
        return None
    for wait in waits:
        body = changed(body, r"\bsleep [0-9.]+", "until_ok '" + wait.replace("'", "'\\''") + "'", 1)
    if re.search(r"\bsleep [0-9.]+", body):
        raise Fault("a sleep without `wait:`, for what the test waits for instead")
    return Block(line, "".join(before) + RUN[match["language"]].format(body), expected)


def quoted(note: str) -> tuple[str, str]:
    """A note whose words stand between backticks; what follows is a reason."""
    parts = re.match(r"(without|fails|beside)[: ]+`(.*?)`|([\w ]+): (.*)", note.strip())
    if not parts:
        raise Fault(f"cannot read the note {note!r}")
    return (parts[1], parts[2]) if parts[1] else (parts[3], parts[4])


def changed(body: str, pattern: str, by: str, count: int = 0) -> str:
    body, times = re.subn(pattern, lambda match: match.expand(by) if "\\g<0>" in by else by, body, count=count)
    if not times:
        raise Fault(f"a note finds nothing: {pattern}")
    return body


def run(page: Path, thalweg: Path, folder: Path) -> int:
    """Runs the blocks of a page; returns how many."""
    blocks = read(page)
    scripts = folder / ".guide"
    for path in ("bin", "target/release", ".guide"):
        (folder / path).mkdir(parents=True)
    for path in ("bin/thalweg", "target/release/thalweg"):
        (folder / path).symlink_to(thalweg)
    (folder / "bin/thalweg-bench").symlink_to(thalweg.with_name("thalweg-bench"))
    (folder / "bin/python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (folder / "bin/python3").chmod(0o755)
    (folder / "venv").symlink_to(Path(sys.prefix))
    driver = PRELUDE
    for number, block in enumerate(blocks):
        (scripts / f"{number}.sh").write_text(block.program)
        driver += f". .guide/{number}.sh </dev/null\n: >.guide/{number}.done\nuntil_ok '[ -e .guide/{number}.go ]'\n"
    (scripts / "driver.sh").write_text(driver)
    own = shutil.which("unshare") and subprocess.run(["unshare", "--net", "true"], capture_output=True).returncode == 0
    clean = {"PATH": f"{folder}/bin:{os.environ['PATH']}", "HOME": str(folder), "LANG": "C.UTF-8", "OWN_NETWORK": "1" if own else ""}
    output = folder / ".guide/output"
    with output.open("wb") as into:
        command = [*(["unshare", "--net"] if own else []), "bash", ".guide/driver.sh"]
        shell = subprocess.Popen(command, cwd=folder, env=clean, stdin=subprocess.DEVNULL, stdout=into, stderr=into, start_new_session=True)
    try:
        deadline = time.monotonic() + SECONDS_MAX
        begin = 0
        for number, block in enumerate(blocks):
            await_block(page, block, scripts / f"{number}.done", output, begin, shell, deadline)
            begin = len(output.read_text(errors="replace"))
            (scripts / f"{number}.go").touch()
    finally:
        try:
            os.killpg(shell.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        shell.wait()
    return len(blocks)


def await_block(page: Path, block: Block, done: Path, output: Path, begin: int, shell: subprocess.Popen[bytes], deadline: float) -> None:
    while True:
        ended = shell.poll() is not None
        is_done = done.exists()
        said = output.read_text(errors="replace")[begin:]
        missing = missed(said, block.expected)
        if is_done and missing is None:
            return
        if (ended and not is_done) or time.monotonic() > deadline:
            why = f"its output has no {missing!r}" if is_done else "its commands failed" if ended else "it does not end"
            raise Fault(f"{page}:{block.line}: {why}:\n{said}")
        time.sleep(0.02)


def missed(said: str, expected: list[str]) -> str | None:
    """The first expectation that the output does not meet."""
    at = 0
    for text in expected:
        found = said.find(text, at)
        if found < 0:
            return text
        at = found + len(text)
    return None


def main() -> int:
    thalweg, *pages = map(Path, sys.argv[1:])
    pages = pages or [TREE / guide for guide in GUIDES]
    faults = 0
    for page in pages:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            try:
                count = run(page, thalweg.resolve(), Path(folder))
                print(f"{page}: {count} blocks ran in {time.monotonic() - begin:.1f} s", flush=True)
            except Fault as why:
                faults += 1
                print(why, flush=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
