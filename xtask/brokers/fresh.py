"""Makes the place on a broker that `cargo xtask bench --brokers` sends to, empty: KIND URL."""

import asyncio
import json
import sys

import confluent_kafka
import confluent_kafka.admin
import nats
import nats.js.errors
import paho.mqtt.client as mqtt
import pika
import redis

NAME = "bench"


def redis_stream(url, appendfsync):
    server = redis.Redis.from_url(url)
    server.config_set("appendfsync", appendfsync)
    server.flushdb()


async def nats_stream(url):
    connection = await nats.connect(url)
    jetstream = connection.jetstream()
    try:
        await jetstream.delete_stream(NAME)
    except nats.js.errors.NotFoundError:
        pass
    # The client does not know every setting of the server.
    config = {"name": NAME, "subjects": [NAME], "storage": "file", "allow_atomic": True}
    answer = await connection.request(f"$JS.API.STREAM.CREATE.{NAME}", json.dumps(config).encode())
    assert "error" not in json.loads(answer.data), answer.data
    await connection.close()


def kafka_topic(url):
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": url.removeprefix("kafka://")})
    topic = confluent_kafka.admin.NewTopic(NAME, num_partitions=4, replication_factor=1)
    try:
        admin.create_topics([topic])[NAME].result()
    except confluent_kafka.KafkaException as error:
        if error.args[0].code() != confluent_kafka.KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def mqtt_session(url):
    host, port = url.removeprefix("mqtt://").split(":")
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id=NAME, protocol=mqtt.MQTTv5)
    properties = mqtt.Properties(mqtt.PacketTypes.CONNECT)
    properties.SessionExpiryInterval = 3600
    client.on_connect = lambda *_: client.subscribe(NAME, qos=1)
    client.on_subscribe = lambda *_: client.disconnect()
    client.connect(host, int(port), clean_start=True, properties=properties)
    client.loop_forever()


def rabbitmq_queue(url, kind):
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.queue_delete(NAME)
    channel.queue_declare(NAME, durable=True, arguments={"x-queue-type": kind})
    connection.close()


KINDS = {
    "redis": lambda url: redis_stream(url, "everysec"),
    "valkey": lambda url: redis_stream(url, "everysec"),
    "redis-synced": lambda url: redis_stream(url, "always"),
    "nats": lambda url: asyncio.run(nats_stream(url)),
    "kafka": kafka_topic,
    "mosquitto": mqtt_session,
    "rabbitmq-classic": lambda url: rabbitmq_queue(url, "classic"),
    "rabbitmq-quorum": lambda url: rabbitmq_queue(url, "quorum"),
    "rabbitmq-stream": lambda url: rabbitmq_queue(url, "stream"),
}

if __name__ == "__main__":
    KINDS[sys.argv[1]](sys.argv[2])
