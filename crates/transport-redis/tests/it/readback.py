"""Reads a stream with redis-py, and its entries as events with the cloudevents package: prints one JSON a line."""

import base64
import json
import sys

import redis
from cloudevents.core.v1.event import CloudEvent


def main(url, stream):
    for entry, fields in redis.Redis.from_url(url).xrange(stream):
        attributes = {
            name[3:].decode(): value.decode() for name, value in fields.items() if name.startswith(b"ce-")
        }
        headers = {name[2:].decode(): value.decode() for name, value in fields.items() if name.startswith(b"h-")}
        print(json.dumps({
            "attributes": attributes,
            "headers": headers,
            "body": base64.b64encode(fields[b"data"]).decode(),
            "event": read(attributes, fields[b"data"]),
        }))


def read(attributes, data):
    """The package has no binding to Redis, but checks an event by the rules of CloudEvents."""
    from dateutil.parser import isoparse

    event = CloudEvent({**attributes, "time": isoparse(attributes["time"])}, data)
    return {"id": event.get_id(), "type": event.get_type(), "subject": event.get_subject()}


main(*sys.argv[1:])
