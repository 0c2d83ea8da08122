"""Writes events into a topic with confluent-kafka, as many as were asked for with this compression."""

import sys
import uuid

from confluent_kafka import Producer

server, topic, codec, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
refused = []
# All of them in one batch, which is worth compressing.
producer = Producer({"bootstrap.servers": server, "compression.type": codec, "linger.ms": 500})
for number in range(count):
    headers = {"ce_specversion": "1.0", "ce_id": str(uuid.uuid4()), "ce_type": "order.placed", "ce_source": "/python",
               "ce_subject": "k", "content-type": "text/plain"}
    producer.produce(topic, f"{codec} {number} {'x' * 500}", key="k", headers=headers,
                     on_delivery=lambda error, _: refused.append(error) if error else None)
producer.flush(30)
assert not refused, refused
