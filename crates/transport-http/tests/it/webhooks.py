"""Reads one JSON object from stdin and answers with one: what libraries that nobody here wrote make of a webhook."""

import base64
import json
import sys
from datetime import datetime, timezone

from cloudevents.core.bindings.http import HTTPMessage, from_binary, to_binary
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from standardwebhooks.webhooks import Webhook, WebhookVerificationError


def verify(asked):
    """Whether standardwebhooks verifies the request with this secret."""
    try:
        Webhook(asked["secret"]).verify(base64.b64decode(asked["body"]), asked["headers"], json_parse=False)
        return {"verified": True}
    except WebhookVerificationError as error:
        return {"verified": False, "why": str(error)}


def sign(asked):
    """The signature that standardwebhooks makes of a text."""
    at = datetime.fromtimestamp(asked["timestamp"], tz=timezone.utc)
    return {"signature": Webhook(asked["secret"]).sign(asked["id"], at, asked["body"])}


def read(asked):
    """The attributes and data that the cloudevents package reads from a request."""
    message = HTTPMessage(headers=asked["headers"], body=base64.b64decode(asked["body"]))
    event = from_binary(message, JSONFormat())
    attributes = {name: str(value) for name, value in event.get_attributes().items()}
    attributes["time"] = event.get_time().isoformat()
    data = event.get_data()
    if isinstance(data, bytes):
        return {"attributes": attributes, "data_base64": base64.b64encode(data).decode()}
    return {"attributes": attributes, "data": data}


def write(asked):
    """The request that the cloudevents package makes of an event."""
    message = to_binary(CloudEvent(asked["attributes"], asked["data"]), JSONFormat())
    body = message.body if isinstance(message.body, bytes) else message.body.encode()
    return {"headers": message.headers, "body": base64.b64encode(body).decode()}


asked = json.load(sys.stdin)
json.dump({"verify": verify, "sign": sign, "read": read, "write": write}[asked["do"]](asked), sys.stdout)
