"""Reads a stream with nats-py, and its messages as events with the cloudevents package: prints one JSON a line."""

import asyncio
import base64
import json
import sys

import nats
from cloudevents.core.bindings.http import HTTPMessage, from_binary
from cloudevents.core.formats.json import JSONFormat


async def main(url, stream, count):
    connection = await nats.connect(url)
    jetstream = connection.jetstream()
    consumer = await jetstream.pull_subscribe("", durable="readback", stream=stream)
    left = int(count)
    while left > 0:
        for message in await consumer.fetch(left, timeout=60):
            left -= 1
            # The binding of CloudEvents to NATS names and encodes headers as the one to HTTP does.
            event = from_binary(HTTPMessage(dict(message.headers), message.data), JSONFormat())
            attributes = {name: str(value) for name, value in event.get_attributes().items()}
            print(json.dumps({
                "subject": message.subject,
                "headers": dict(message.headers),
                "attributes": attributes,
                "time": event.get_time().isoformat(),
                "data": event.get_data() if isinstance(event.get_data(), (dict, list)) else None,
                "body": base64.b64encode(message.data).decode(),
            }))
            await message.ack()
    await connection.close()


asyncio.run(main(*sys.argv[1:]))
