"""A worker of a group: takes jobs at QoS 1, needs some milliseconds for each, and acknowledges when a job is done.

    worker.py PORT NAME MILLISECONDS [THROTTLED_MILLISECONDS]

SIGUSR1 throttles it: from then on a job takes THROTTLED_MILLISECONDS. It runs until SIGTERM or SIGINT, says `ready` when it
is subscribed, and then a line for each job: the time, its name, the job.

There is nothing in it for a particular broker: Paho acknowledges a message when `on_message` returns, so the work is done in
there, and the broker sees from the acknowledgement how long the job took. The user property only saves it the guess.
"""

import signal
import sys
import time

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

PORT, NAME, SECONDS = int(sys.argv[1]), sys.argv[2], float(sys.argv[3]) / 1000
THROTTLED_SECONDS = float(sys.argv[4]) / 1000 if len(sys.argv) > 4 else SECONDS

seconds = SECONDS


def on_connect(client, userdata, flags, reason, properties):
    client.subscribe("$share/workers/jobs/#", qos=1)


def on_subscribe(client, userdata, mid, reasons, properties):
    print("ready", flush=True)


def on_message(client, userdata, message):
    time.sleep(seconds)
    print(f"{time.time():.3f} {NAME} {message.payload.decode()}", flush=True)


def throttle(signum, frame):
    global seconds
    seconds = THROTTLED_SECONDS


def leave(signum, frame):
    client.disconnect()


client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=NAME, protocol=mqtt.MQTTv5)
client.on_connect, client.on_subscribe, client.on_message = on_connect, on_subscribe, on_message
signal.signal(signal.SIGUSR1, throttle)
signal.signal(signal.SIGTERM, leave)
signal.signal(signal.SIGINT, leave)

terms = Properties(PacketTypes.CONNECT)
terms.ReceiveMaximum = 10
terms.UserProperty = [("lb-ack", "processed")]
client.connect("127.0.0.1", PORT, properties=terms)
client.loop_forever()
