"""Subscribes with paho-mqtt, says so, and prints each message as one JSON a line: its event by the MQTT 5 binding."""

import base64
import json
import sys

import paho.mqtt.client as mqtt

host, port, topics, count = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
left = count


def connected(client, _userdata, _flags, reason, _properties):
    assert not reason.is_failure, reason
    client.subscribe(topics, qos=2)


def subscribed(_client, _userdata, _mid, reasons, _properties):
    assert not any(reason.is_failure for reason in reasons), reasons
    print(json.dumps({"subscribed": True}), flush=True)


def arrived(client, _userdata, message):
    global left
    properties = message.properties
    print(json.dumps({
        "topic": message.topic,
        "qos": message.qos,
        "retain": message.retain,
        "content_type": getattr(properties, "ContentType", None),
        # Attributes are user properties under their own names, as the binding of CloudEvents says.
        "properties": dict(getattr(properties, "UserProperty", [])),
        "body": base64.b64encode(message.payload).decode(),
    }), flush=True)
    left -= 1
    if left == 0:
        client.disconnect()


client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
client.on_connect, client.on_subscribe, client.on_message = connected, subscribed, arrived
client.connect(host, port)
client.loop_forever()
