"""The worker: takes readings out of a queue by AMQP, with pika, and says so when one is too hot.

    worker.py PORT COUNT LIMIT
"""

import sys

import pika

port, count, limit = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])

connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
channel = connection.channel()
channel.confirm_delivery()
channel.basic_qos(prefetch_count=10)

# A queue that outlives us. What MQTT calls plant/3/temperature is the key plant.3.temperature of amq.topic here.
channel.queue_declare("readings", durable=True)
channel.queue_bind("readings", "amq.topic", "plant.*.temperature")
print("ready", flush=True)

done = 0
for delivery, properties, body in channel.consume("readings"):
    machine, degrees = delivery.routing_key.split(".")[1], float(body)
    if degrees > limit:
        channel.basic_publish(
            "amq.topic",
            f"plant.{machine}.alarm",
            f"machine {machine}: {degrees} degrees".encode(),
            pika.BasicProperties(content_type="text/plain", delivery_mode=2, headers={"degrees": str(degrees)}),
        )
    channel.basic_ack(delivery.delivery_tag)
    done += 1
    if done == count:
        break

connection.close()
print(f"{done} readings taken", flush=True)
