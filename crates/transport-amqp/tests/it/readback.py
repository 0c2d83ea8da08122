"""Reads and writes messages with clients that nobody here wrote: pika, and the CloudEvents SDK's AMQP binding.

readback.py read URL QUEUE COUNT     one JSON object a line for each message
readback.py read-ce URL QUEUE COUNT  the same for `ce-` headers, which the SDK reads without help
readback.py write URL QUEUE          publishes one CloudEvent, made by the SDK
"""

import base64
import json
import sys
from datetime import datetime, timezone

import pika
from cloudevents.core.bindings import amqp, http
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent


def read(channel, queue, count):
    for method, properties, body in channel.consume(queue, inactivity_timeout=30):
        if method is None:
            sys.exit("no message within 30 s")
        message = amqp.AMQPMessage(
            properties={"content-type": properties.content_type},
            application_properties=properties.headers,
            application_data=body,
        )
        event = amqp.from_binary(message, JSONFormat())
        attributes = {name: str(value) for name, value in event.get_attributes().items()}
        attributes["time"] = event.get_time().isoformat()
        print(
            json.dumps(
                {
                    "attributes": attributes,
                    "body": base64.b64encode(body).decode(),
                    "headers": {k: v for k, v in properties.headers.items() if not k.startswith("cloudEvents:")},
                    "message_id": properties.message_id,
                    "type": properties.type,
                    "timestamp": properties.timestamp,
                    "delivery_mode": properties.delivery_mode,
                    "content_type": properties.content_type,
                }
            )
        )
        channel.basic_ack(method.delivery_tag)
        count -= 1
        if count == 0:
            return


def read_ce(channel, queue, count):
    for method, properties, body in channel.consume(queue, inactivity_timeout=30):
        if method is None:
            sys.exit("no message within 30 s")
        headers = {**properties.headers, "content-type": properties.content_type}
        event = http.from_binary(http.HTTPMessage(headers=headers, body=body), JSONFormat())
        print(json.dumps({name: str(value) for name, value in event.get_attributes().items()}))
        channel.basic_ack(method.delivery_tag)
        count -= 1
        if count == 0:
            return


def write(channel, queue):
    event = CloudEvent(
        attributes={
            "id": "018f3c2e-0000-7000-8000-000000000001",
            "type": "order.placed",
            "source": "/python",
            "subject": "o-1",
            "time": datetime(2026, 1, 31, 12, 0, 0, 123000, tzinfo=timezone.utc),
            "datacontenttype": "application/json",
            "tenantid": "north",
            "shop": "7",
        },
        data={"id": 1, "name": "snow \u2603"},
    )
    message = amqp.to_binary(event, JSONFormat())
    channel.confirm_delivery()
    channel.basic_publish(
        "",
        queue,
        message.application_data,
        pika.BasicProperties(
            content_type=message.properties["content-type"],
            headers={**message.application_properties, "plain": "header"},
            delivery_mode=2,
        ),
        mandatory=True,
    )
    print(base64.b64encode(message.application_data).decode())


def main():
    action, url, queue, *rest = sys.argv[1:]
    channel = pika.BlockingConnection(pika.URLParameters(url)).channel()
    if action == "read":
        read(channel, queue, int(rest[0]))
    elif action == "read-ce":
        read_ce(channel, queue, int(rest[0]))
    else:
        write(channel, queue)


main()
