"""A participant of DDS by another library, driven by lines of JSON. It answers each line with one, and says what it reads.

{"do": "read", "topic": ..., "type": ..., "qos": [...]}      {"do": "write", "topic": ..., "type": ..., "qos": [...], "value": ...}
{"do": "matched", "topic": ...}                              {"do": "dispose", "topic": ..., "value": ...}
{"do": "serve", "topic": ...}: the service of that name adds
{"do": "node", "topic": the node's name, "bytes": 16 or 24}: writes, as ROS 2 does, that all readers and writers so far are of this node
{"do": "nodes", "topic": ..., "bytes": 16 or 24}: reads which nodes others have    {"do": "opposite", "topic": ...}: the ids of its opposites
{"do": "refused", "topic": ...}: the number of the policy by which an endpoint was last found incompatible, or 0

A word of quality may have a number, of milliseconds where it is a time: "deadline:100". "as" is the name of an endpoint beside others of its topic.
"""

import base64
import json
import sys
import threading
import time
from dataclasses import dataclass, fields, is_dataclass
from enum import auto
from typing import Optional

from cyclonedds.core import InstanceState, Policy, Qos
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.idl import IdlEnum, IdlStruct, IdlUnion
from cyclonedds.idl.annotations import appendable, bit_bound, final, key, member_id, mutable
from cyclonedds.idl.types import array, case, default, float64, int16, int32, int64, sequence, uint8, uint32, uint64
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


@dataclass
class Sum(IdlStruct, typename="example_interfaces::srv::dds_::AddTwoInts_Request_"):
    """As rmw_cyclonedds writes it: which client asks, and the number of its request, stand before the value."""

    client: uint64
    number: int64
    a: int64
    b: int64


@dataclass
class SumAnswer(IdlStruct, typename="example_interfaces::srv::dds_::AddTwoInts_Response_"):
    client: uint64
    number: int64
    sum: int64


class Color(IdlEnum, typename="plant::Color", default="RED"):
    RED = auto()
    BLUE = auto()


@dataclass
@appendable
class Part(IdlStruct, typename="plant::Part"):
    at: array[int64, 2]
    words: sequence[str]


@dataclass
@appendable
class Shape(IdlStruct, typename="plant::Shape"):
    name: str
    key("name")
    color: Color
    parts: sequence[Part]
    size: float64


@dataclass
class OtherShape(IdlStruct, typename="plant::Shape"):
    name: str
    key("name")
    weight: int32


class Level(IdlEnum, typename="plant::Level", default="LOW"):
    LOW = auto()
    HIGH = auto()


@appendable
class Amount(IdlUnion, discriminator=Level, discriminator_is_key=False, typename="plant::Amount"):
    count: case[Level.LOW, int64]
    many: case[Level.HIGH, sequence[float64]]


@final
class Code(IdlUnion, discriminator=int16, discriminator_is_key=False, typename="plant::Code"):
    number: case[[-1, 2], int64]
    text: default[str]


@dataclass
@mutable
class Setting(IdlStruct, typename="plant::Setting"):
    name: str
    member_id("name", 10)
    limit: Optional[float64]
    member_id("limit", 7)
    step: int64
    member_id("step", 70000)
    tags: sequence[str]
    bits: sequence[float64]


@dataclass
@appendable
class Order(IdlStruct, typename="plant::Order"):
    id: int32
    key("id")
    weight: Optional[float64]
    note: Optional[str]
    amount: Amount
    code: Code
    settings: sequence[Setting]
    more: sequence[Amount]


@dataclass
@mutable
class Plan(IdlStruct, typename="plant::Plan"):
    id: int32
    key("id")
    order: Optional[Order]
    setting: Setting
    flag: bool


@bit_bound(8)
class Few(IdlEnum, typename="Few", default="ONE"):
    ONE = auto()


@dataclass
class Odd(IdlStruct, typename="Odd"):
    data: Few


def node_types(size):
    """Of `ros_discovery_info`: ids have 24 bytes up to ROS 2 Humble, and 16 since Iron. A `char` there is an `uint8` here."""

    @dataclass
    class Gid(IdlStruct, typename="rmw_dds_common::msg::dds_::Gid_"):
        data: array[uint8, size]

    @dataclass
    class NodeEntities(IdlStruct, typename="rmw_dds_common::msg::dds_::NodeEntitiesInfo_"):
        node_namespace: str
        node_name: str
        reader_gid_seq: sequence[Gid]
        writer_gid_seq: sequence[Gid]

    @dataclass
    class ParticipantEntities(IdlStruct, typename="rmw_dds_common::msg::dds_::ParticipantEntitiesInfo_"):
        gid: Gid
        node_entities_info_seq: sequence[NodeEntities]

    return Gid, NodeEntities, ParticipantEntities


NODES = {size: node_types(size) for size in (16, 24)}
TYPES = {
    it.__name__: it
    for it in [Text, PoseStamped, Twist, Blob, Reading, Sum, SumAnswer, Shape, OtherShape, Plan, Odd]
}
QOS = {
    "reliable": Policy.Reliability.Reliable(1_000_000_000),
    "best-effort": Policy.Reliability.BestEffort,
    "transient-local": Policy.Durability.TransientLocal,
    "volatile": Policy.Durability.Volatile,
    "transient": Policy.Durability.Transient,
    "persistent": Policy.Durability.Persistent,
    "keep-all": Policy.History.KeepAll,
    "exclusive": Policy.Ownership.Exclusive,
    "lifespan": Policy.Lifespan(60_000_000_000),
    "deadline": Policy.Deadline(60_000_000_000),
    "budget": Policy.LatencyBudget(1_000_000),
    "by-topic": Policy.Liveliness.ManualByTopic(60_000_000_000),
    "by-participant": Policy.Liveliness.ManualByParticipant(60_000_000_000),
    "source-order": Policy.DestinationOrder.BySourceTimestamp,
    "ordered": Policy.PresentationAccessScope.Topic(False, True),
    "per-topic": Policy.PresentationAccessScope.Topic(False, False),
    "xcdr2": Policy.DataRepresentation(use_xcdrv2_representation=True),
    "xcdr1": Policy.DataRepresentation(use_cdrv0_representation=True),
}


# Of both ends of `ros_discovery_info`.
DISCOVERY = (QOS["reliable"], QOS["transient-local"])
MILLI = 1_000_000
NUMBERED = {
    "deadline": lambda it: Policy.Deadline(it * MILLI),
    "budget": lambda it: Policy.LatencyBudget(it * MILLI),
    "automatic": lambda it: Policy.Liveliness.Automatic(it * MILLI),
    "by-topic": lambda it: Policy.Liveliness.ManualByTopic(it * MILLI),
    "lifespan": lambda it: Policy.Lifespan(it * MILLI),
    "separation": lambda it: Policy.TimeBasedFilter(it * MILLI),
    "depth": Policy.History.KeepLast,
    "held": lambda it: Policy.DurabilityService(0, Policy.History.KeepLast(it), -1, -1, -1),
    "strength": Policy.OwnershipStrength,
}


def qos_of(words):
    pairs = [it.split(":", 1) for it in words if ":" in it]
    partitions = [value for name, value in pairs if name == "partition"]
    policies = [QOS[it] for it in words if it in QOS]
    policies += [NUMBERED[name](int(value)) for name, value in pairs if name in NUMBERED]
    if partitions:
        policies.append(Policy.Partition(partitions))
    return Qos(*policies)


def made(of, value):
    if of is Blob and "size" in value:
        return Blob(data=[at * 7 % 256 for at in range(value["size"])])
    if of is Shape:
        parts = [Part(**it) for it in value["parts"]]
        return Shape(**{**value, "color": Color[value["color"]], "parts": parts})
    if of is Order:
        lists = {"settings": Setting, "more": Amount}
        lists = {name: [made(it, one) for one in value[name]] for name, it in lists.items()}
        unions = {name: made(it, value[name]) for name, it in {"amount": Amount, "code": Code}.items()}
        return Order(value["id"], value.get("weight"), value.get("note"), **unions, **lists)
    if of is Plan:
        order = made(Order, value["order"]) if "order" in value else None
        return Plan(value["id"], order, made(Setting, value["setting"]), value["flag"])
    if is_dataclass(of):
        return of(**{it.name: made(it.type, value.get(it.name)) for it in fields(of)})
    if isinstance(of, type) and issubclass(of, IdlUnion):
        said, value = value.values()
        return of(discriminator=Level[said] if of is Amount else said, value=value)
    if isinstance(of, type) and issubclass(of, IdlEnum):
        return of[value]
    return value


def shown(value):
    if isinstance(value, IdlUnion):
        said, has = value.get()
        name = value.__idl_cases__.get(said, value.__idl_default__)[0]
        return {"$discriminator": shown(said), name: shown(has)}
    if isinstance(value, Blob):
        data = bytes(value.data)
        return {"size": len(data), "first": base64.b64encode(data[:16]).decode()}
    if is_dataclass(value):
        shows = {it.name: shown(getattr(value, it.name)) for it in fields(value)}
        return {name: it for name, it in shows.items() if it is not None}
    if isinstance(value, IdlEnum):
        return value.name
    if isinstance(value, list):
        return [shown(it) for it in value]
    return value


lock = threading.Lock()


def say(**what):
    with lock:
        print(json.dumps(what), flush=True)


def hear(topic, reader, script):
    """Says what comes. Not by a listener: one may be called before the reader is known by its number."""
    while script.readers.get(topic) is reader:
        for sample in reader.take(N=100):
            if isinstance(sample, tuple(TYPES.values())):
                say(topic=topic, value=shown(sample))
            elif sample.sample_info.instance_state == InstanceState.NotAliveDisposed:
                say(topic=topic, state="gone")
        time.sleep(0.005)


def hear_nodes(reader):
    while True:
        for it in reader.take(N=100):
            if not hasattr(it, "node_entities_info_seq"):
                continue
            for node in it.node_entities_info_seq:
                ids = [sorted(bytes(gid.data).hex() for gid in ids) for ids in (node.reader_gid_seq, node.writer_gid_seq)]
                say(participant=bytes(it.gid.data).hex(), namespace=node.node_namespace, node=node.node_name, readers=ids[0], writers=ids[1])
        time.sleep(0.005)


def serve(requests, answers):
    while True:
        for it in requests.take(N=100):
            if isinstance(it, Sum):
                answers.write(SumAnswer(it.client, it.number, it.a + it.b))
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
        name = it.get("as", it["topic"])
        if name not in self.writers:
            qos = qos_of(it.get("qos", []))
            self.writers[name] = DataWriter(self.participant, self.topic(it), qos=qos)
        return self.writers[name]

    def run(self, it):
        name, what = it.get("as", it["topic"]), it["do"]
        if what == "read":
            qos = qos_of(it.get("qos", []))
            reader = self.readers[name] = DataReader(self.participant, self.topic(it), qos=qos)
            threading.Thread(target=hear, args=(name, reader, self), daemon=True).start()
        elif what == "refused":
            if name in self.writers:
                return self.writers[name].get_offered_incompatible_qos_status().last_policy_id
            return self.readers[name].get_requested_incompatible_qos_status().last_policy_id
        elif what == "serve":
            reliable = qos_of(["reliable"])
            asked = Topic(self.participant, f"rq/{name}Request", Sum)
            answered = Topic(self.participant, f"rr/{name}Reply", SumAnswer)
            ends = (
                DataReader(self.participant, asked, qos=reliable),
                DataWriter(self.participant, answered, qos=reliable),
            )
            threading.Thread(target=serve, args=ends, daemon=True).start()
        elif what == "nodes":
            topic = Topic(self.participant, "ros_discovery_info", NODES[it["bytes"]][2])
            qos = Qos(*DISCOVERY, Policy.History.KeepAll)
            self.others = DataReader(self.participant, topic, qos=qos)
            threading.Thread(target=hear_nodes, args=(self.others,), daemon=True).start()
        elif what == "node":
            gid, node, participant = NODES[it["bytes"]]
            if name not in self.writers:
                topic = Topic(self.participant, "ros_discovery_info", participant)
                qos = Qos(*DISCOVERY, Policy.History.KeepLast(1))
                self.writers[name] = DataWriter(self.participant, topic, qos=qos)
            id_of = lambda entity: gid(list(entity.get_guid().bytes.ljust(it["bytes"], b"\0")))
            ends = [[id_of(one) for one in ends.values()] for ends in (self.readers, self.writers)]
            namespace, _, last = name.rpartition("/")
            nodes = [node(namespace or "/", last, *ends)]
            self.writers[name].write(participant(id_of(self.participant), nodes))
        elif what == "opposite":
            end = self.writers.get(name) or self.readers[name]
            is_writer = name in self.writers
            handles = end.get_matched_subscriptions() if is_writer else end.get_matched_publications()
            of = end.get_matched_subscription_data if is_writer else end.get_matched_publication_data
            return [found.key.bytes.hex() for found in map(of, handles) if found]
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
