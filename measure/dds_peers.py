"""Participants of Cyclone DDS for Python that dds.py measures with; each prints lines of JSON and ends with its standard input.

    dds_peers.py write DOMAIN XML TOPIC RATE BYTES     reliable samples, until the input ends
    dds_peers.py read DOMAIN XML TOPIC                 when each was written and came
    dds_peers.py crowd DOMAIN XML PARTICIPANTS TOPICS  two writers and two readers of each topic, and the endpoints of others
"""

import json
import os
import sys
import threading
import time
from dataclasses import dataclass

from cyclonedds.builtin import BuiltinDataReader, BuiltinTopicDcpsPublication, BuiltinTopicDcpsSubscription
from cyclonedds.core import InstanceState, Policy, Qos, ReadCondition, SampleState, ViewState, WaitSet
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.types import int64, uint64
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration

RELIABLE = Qos(Policy.Reliability.Reliable(duration(seconds=60)), Policy.History.KeepAll)


@dataclass
class Stamped(IdlStruct, typename="measure::Stamped"):
    number: uint64
    sent: int64
    text: str


def say(**what) -> None:
    print(json.dumps(what), flush=True)


def write(participant, topic: str, rate: str, size: str) -> None:
    writer = DataWriter(participant, Topic(participant, topic, Stamped), qos=RELIABLE)
    while not writer.get_matched_subscriptions():
        time.sleep(0.01)
    say(matched=True)
    text, number, longest = "x" * max(0, int(size) - 21), 0, 0
    due = time.monotonic_ns()
    while not ended.is_set():
        due = max(due + int(1e9 / float(rate)), time.monotonic_ns() - 50_000_000)
        time.sleep(max(0, due - time.monotonic_ns()) / 1e9)
        began = time.monotonic_ns()
        writer.write(Stamped(number, began, text))
        longest = max(longest, time.monotonic_ns() - began)
        number += 1
    say(written=number, longest_ms=longest / 1e6)


def read(participant, topic: str) -> None:
    reader = DataReader(participant, Topic(participant, topic, Stamped), qos=RELIABLE)
    waits = WaitSet(participant)
    waits.attach(ReadCondition(reader, ViewState.Any | InstanceState.Any | SampleState.NotRead))
    say(reading=True)
    came = []
    while not ended.is_set():
        if waits.wait(duration(milliseconds=200)):
            samples = reader.take(N=256)
            now = time.monotonic_ns()
            came += [(it.number, it.sent, now) for it in samples if isinstance(it, Stamped)]
    say(came=came)


def crowd(participant, participants: str, topics: str) -> None:
    """Says when it sees one more endpoint of others, each time the number changes and 50 ms have gone."""
    domain, many = participant.get_domain_id(), int(topics)
    others = [participant] + [DomainParticipant(domain) for _ in range(int(participants) - 1)]
    kept = []
    for number in range(many):
        for turn in range(4):
            # Each participant has as many endpoints, and no topic has both its writers with one.
            owner = others[(number * 4 + turn) % len(others)]
            topic = Topic(owner, f"crowd{number}", Stamped)
            kept += [topic, (DataWriter if turn < 2 else DataReader)(owner, topic, qos=RELIABLE)]
    own = {it.guid for it in others}
    found: dict = {}
    readers = [BuiltinDataReader(participant, it) for it in (BuiltinTopicDcpsPublication, BuiltinTopicDcpsSubscription)]
    say(made=4 * many)
    said = -1
    while not ended.is_set():
        for reader in readers:
            for it in reader.take(N=500):
                if it.sample_info.instance_state == InstanceState.Alive and it.participant_key not in own:
                    found.setdefault(it.key, time.monotonic_ns())
        if len(found) != said:
            said = len(found)
            say(found=said, last=max(found.values(), default=0))
        time.sleep(0.05)


def watch_input() -> None:
    sys.stdin.read()
    ended.set()


ended = threading.Event()
if __name__ == "__main__":
    role, domain, xml, *more = sys.argv[1:]
    threading.Thread(target=watch_input, daemon=True).start()
    kept_domain = Domain(int(domain), xml)
    {"write": write, "read": read, "crowd": crowd}[role](DomainParticipant(int(domain)), *more)
    # Taking thousands of endpoints down in order is nothing to wait for.
    sys.stdout.flush()
    os._exit(0)
