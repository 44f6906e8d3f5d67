"""A participant of DDS by another library, driven by lines of JSON. It answers each line with one, and says what it reads.

{"do": "read", "topic": ..., "type": ..., "qos": [...]}      {"do": "write", "topic": ..., "type": ..., "qos": [...], "value": ...}
{"do": "matched", "topic": ...}                              {"do": "dispose", "topic": ..., "value": ...}
"""

import base64
import json
import sys
import threading
import time
from dataclasses import dataclass, fields, is_dataclass

from cyclonedds.core import Policy, Qos
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.annotations import key
from cyclonedds.idl.types import float64, int32, sequence, uint8, uint32
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic


@dataclass
class Text(IdlStruct, typename="std_msgs::msg::dds_::String_"):
    data: str


@dataclass
class Time(IdlStruct, typename="builtin_interfaces::msg::dds_::Time_"):
    sec: int32
    nanosec: uint32


@dataclass
class Header(IdlStruct, typename="std_msgs::msg::dds_::Header_"):
    stamp: Time
    frame_id: str


@dataclass
class Vector3(IdlStruct, typename="geometry_msgs::msg::dds_::Vector3_"):
    x: float64
    y: float64
    z: float64


@dataclass
class Point(IdlStruct, typename="geometry_msgs::msg::dds_::Point_"):
    x: float64
    y: float64
    z: float64


@dataclass
class Quaternion(IdlStruct, typename="geometry_msgs::msg::dds_::Quaternion_"):
    x: float64
    y: float64
    z: float64
    w: float64


@dataclass
class Pose(IdlStruct, typename="geometry_msgs::msg::dds_::Pose_"):
    position: Point
    orientation: Quaternion


@dataclass
class PoseStamped(IdlStruct, typename="geometry_msgs::msg::dds_::PoseStamped_"):
    header: Header
    pose: Pose


@dataclass
class Twist(IdlStruct, typename="geometry_msgs::msg::dds_::Twist_"):
    linear: Vector3
    angular: Vector3


@dataclass
class Blob(IdlStruct, typename="Blob"):
    data: sequence[uint8]


@dataclass
class Reading(IdlStruct, typename="Reading"):
    id: int32
    key("id")
    value: float64


TYPES = {it.__name__: it for it in [Text, PoseStamped, Twist, Blob, Reading]}
QOS = {
    "reliable": Policy.Reliability.Reliable(1_000_000_000),
    "best-effort": Policy.Reliability.BestEffort,
    "transient-local": Policy.Durability.TransientLocal,
    "volatile": Policy.Durability.Volatile,
    "keep-all": Policy.History.KeepAll,
    "exclusive": Policy.Ownership.Exclusive,
    "lifespan": Policy.Lifespan(60_000_000_000),
}


def qos_of(words):
    partitions = [it.removeprefix("partition:") for it in words if it.startswith("partition:")]
    policies = [QOS[it] for it in words if it in QOS]
    if partitions:
        policies.append(Policy.Partition(partitions))
    return Qos(*policies)


def made(of, value):
    if of is Blob and "size" in value:
        return Blob(data=[at * 7 % 256 for at in range(value["size"])])
    if is_dataclass(of):
        return of(**{it.name: made(it.type, value[it.name]) for it in fields(of)})
    return value


def shown(value):
    if isinstance(value, Blob):
        data = bytes(value.data)
        return {"size": len(data), "first": base64.b64encode(data[:16]).decode()}
    if is_dataclass(value):
        return {it.name: shown(getattr(value, it.name)) for it in fields(value)}
    return value


lock = threading.Lock()


def say(**what):
    with lock:
        print(json.dumps(what), flush=True)


def hear(topic, reader, script):
    """Says what comes. Not by a listener: one may be called before the reader is known by its number."""
    while script.readers.get(topic) is reader:
        for sample in reader.take(N=100):
            if isinstance(sample, (Text, PoseStamped, Twist, Blob, Reading)):
                say(topic=topic, value=shown(sample))
            else:
                say(topic=topic, state="gone")
        time.sleep(0.005)


class Script:
    def __init__(self, participant):
        self.participant = participant
        self.topics, self.readers, self.writers = {}, {}, {}

    def topic(self, it):
        if it["topic"] not in self.topics:
            self.topics[it["topic"]] = Topic(self.participant, it["topic"], TYPES[it["type"]])
        return self.topics[it["topic"]]

    def writer(self, it):
        if it["topic"] not in self.writers:
            qos = qos_of(it.get("qos", []))
            self.writers[it["topic"]] = DataWriter(self.participant, self.topic(it), qos=qos)
        return self.writers[it["topic"]]

    def run(self, it):
        name, what = it["topic"], it["do"]
        if what == "read":
            qos = qos_of(it.get("qos", []))
            reader = self.readers[name] = DataReader(self.participant, self.topic(it), qos=qos)
            threading.Thread(target=hear, args=(name, reader, self), daemon=True).start()
        elif what == "offer":
            self.writer(it)
        elif what == "matched":
            if name in self.writers:
                return len(self.writers[name].get_matched_subscriptions())
            return len(self.readers[name].get_matched_publications())
        elif what == "write":
            self.writer(it).write(made(TYPES[it["type"]], it["value"]))
        elif what == "dispose":
            self.writers[name].dispose(made(TYPES[it["type"]], it["value"]))
        elif what == "stop":
            self.readers.pop(name, None)
            self.writers.pop(name, None)
        return 0


def main():
    domain, xml = int(sys.argv[1]), sys.argv[2]
    _domain = Domain(domain, xml)
    script = Script(DomainParticipant(domain))
    for line in sys.stdin:
        say(done=script.run(json.loads(line)))


main()
