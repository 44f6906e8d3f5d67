import thalweg
from thalweg import Reliability, Success

with thalweg.connect(
    "mqtt://127.0.0.1",  # two ways to one broker: it takes the one
    "coap://127.0.0.1",  # that serves the objective on this network
    objective="latency",
) as client:
    plant = client.subscribe("plant/#", timeout=10)
    ticket = client.publish_message("21.5", "", "plant/1/temperature", reliability=Reliability.EXACTLY_ONCE)
    reading = plant.next(timeout=10)
    print(reading.topic, reading.payload.decode())
    client.flush(timeout=10)
    assert client.is_publish_success(ticket) is Success.ACKNOWLEDGED
    print(client.explain())
