"""Reads a topic with confluent-kafka from its beginning, and prints each record as one JSON a line."""

import base64
import json
import sys

from confluent_kafka import Consumer, TopicPartition

server, topic, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
consumer = Consumer({"bootstrap.servers": server, "group.id": "readback", "enable.auto.commit": False,
                     "auto.offset.reset": "earliest"})
partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
while count > 0:
    message = consumer.poll(30)
    assert message is not None, "nothing arrives"
    assert message.error() is None, message.error()
    print(json.dumps({
        "partition": message.partition(),
        "offset": message.offset(),
        "key": message.key().decode(),
        # Attributes are headers with a prefix, as the binding of CloudEvents says.
        "headers": {name: value.decode() for name, value in message.headers()},
        "body": base64.b64encode(message.value()).decode(),
    }), flush=True)
    count -= 1
consumer.close()
