"""As peer.py, by Dust DDS: readers and writers of `Blob` in a domain, driven by lines of JSON.

{"do": "read" or "offer", "topic": ..., "qos": [...]}    {"do": "matched" or "refused", "topic": ...}

By which policy an endpoint was refused cannot be asked here, and is 0: in dust-dds 0.16 asking for that status is "not yet implemented" and ends
the process, and with listeners for it the process stops answering when another participant is found. XCDR2 cannot be asked for.
"""

import json
import sys
from dataclasses import dataclass

import dust_dds as dds


@dataclass
class Blob:
    data: dds.TypeKind.int32


def lasting(millis):
    return dds.DurationKind.Finite(dds.Duration(millis // 1000, millis % 1000 * 1_000_000))


def liveliness(kind):
    return lambda millis: dds.LivelinessQosPolicy(kind, lasting(millis))


def presentation(scope, is_ordered):
    return dds.PresentationQosPolicy(scope, False, is_ordered)


# Of a writer unless something is said; and a reader's.
RELIABILITY = {
    word: dds.ReliabilityQosPolicy(kind, lasting(1000))
    for word, kind in (("reliable", dds.ReliabilityQosPolicyKind.Reliable), ("best-effort", dds.ReliabilityQosPolicyKind.BestEffort))
}
# The module does not name its class.
SCOPE = type(dds.PublisherQos().get_presentation().get_access_scope())
ENDPOINT = {
    "reliable": ("reliability", RELIABILITY["reliable"]),
    "best-effort": ("reliability", RELIABILITY["best-effort"]),
    "volatile": ("durability", dds.DurabilityQosPolicy(dds.DurabilityQosPolicyKind.Volatile)),
    "transient-local": ("durability", dds.DurabilityQosPolicy(dds.DurabilityQosPolicyKind.TransientLocal)),
    "reception-order": ("destination_order", dds.DestinationOrderQosPolicy(dds.DestinationOrderQosPolicyKind.ByReceptionTimestamp)),
    "source-order": ("destination_order", dds.DestinationOrderQosPolicy(dds.DestinationOrderQosPolicyKind.BySourceTimestamp)),
    "shared": ("ownership", dds.OwnershipQosPolicy(dds.OwnershipQosPolicyKind.Shared)),
    "exclusive": ("ownership", dds.OwnershipQosPolicy(dds.OwnershipQosPolicyKind.Exclusive)),
}
NUMBERED = {
    "deadline": ("deadline", lambda it: dds.DeadlineQosPolicy(lasting(it))),
    "budget": ("latency_budget", lambda it: dds.LatencyBudgetQosPolicy(lasting(it))),
    "automatic": ("liveliness", liveliness(dds.LivelinessQosPolicyKind.Automatic)),
    "by-topic": ("liveliness", liveliness(dds.LivelinessQosPolicyKind.ManualByTopic)),
}
GROUP = {
    "per-instance": ("presentation", presentation(SCOPE.Instance, False)),
    "per-topic": ("presentation", presentation(SCOPE.Topic, False)),
    "ordered": ("presentation", presentation(SCOPE.Topic, True)),
}


def qos_of(words):
    """Policies of an endpoint, and of the publisher or subscriber that it is made by."""
    endpoint, group = {}, {}
    for word in words:
        name, _, value = word.partition(":")
        if name == "partition":
            group["partition"] = dds.PartitionQosPolicy([value])
        elif name == "xcdr1":
            continue  # As all are.
        elif name in NUMBERED:
            field, make = NUMBERED[name]
            endpoint[field] = make(int(value))
        else:
            found, into = (ENDPOINT, endpoint) if word in ENDPOINT else (GROUP, group)
            field, policy = found[word]
            into[field] = policy
    return endpoint, group


class Script:
    def __init__(self, participant):
        self.participant = participant
        self.ends, self.kept = {}, []

    def run(self, it):
        name, what = it["topic"], it["do"]
        if what in ("read", "offer"):
            if "xcdr2" in it["qos"]:
                return 1
            endpoint, group = qos_of(it["qos"])
            topic = self.participant.create_topic(name, Blob)
            if what == "read":
                endpoint.setdefault("reliability", RELIABILITY["best-effort"])
                parent = self.participant.create_subscriber(dds.SubscriberQos(**group))
                self.ends[name] = parent.create_datareader(topic, dds.DataReaderQos(**endpoint))
            else:
                parent = self.participant.create_publisher(dds.PublisherQos(**group))
                self.ends[name] = parent.create_datawriter(topic, dds.DataWriterQos(**endpoint))
            self.kept += [topic, parent]
            return 0
        if what == "refused" or name not in self.ends:
            return 0
        end = self.ends[name]
        is_reader = hasattr(end, "get_matched_publications")
        return len(end.get_matched_publications() if is_reader else end.get_matched_subscriptions())


def main():
    script = Script(dds.DomainParticipantFactory.get_instance().create_participant(int(sys.argv[1])))
    for line in sys.stdin:
        print(json.dumps({"done": script.run(json.loads(line))}), flush=True)


main()
