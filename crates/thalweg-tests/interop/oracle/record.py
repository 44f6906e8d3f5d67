"""Records what RabbitMQ does: starts one, plays every scenario, writes `expected.json`: `record.py FIRST_PORT`."""

import json
import os
import sys

from play import facts
from rabbitmq import RabbitMq

EXPECTED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "expected.json")

if __name__ == "__main__":
    with RabbitMq(int(sys.argv[1])) as broker:
        recorded = {
            "broker": f"rabbitmq-server {broker.version()}",
            "amqp": facts("amqp", broker.amqp),
            "stomp": facts("stomp", broker.stomp),
        }
    with open(EXPECTED, "w") as out:
        json.dump(recorded, out, indent=1, ensure_ascii=False)
        out.write("\n")
    told = sum(len(list_) for protocol in ("amqp", "stomp") for list_ in recorded[protocol].values())
    print(f"{len(recorded['amqp'])} AMQP and {len(recorded['stomp'])} STOMP scenarios, {told} facts", flush=True)
    os._exit(0)
