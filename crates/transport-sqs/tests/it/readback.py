"""Reads the messages of a queue with boto3 and prints one JSON object for each."""

import json
import sys

import boto3

server, name, count = sys.argv[1:]
sqs = boto3.client("sqs", endpoint_url=server, region_name="eu-west-1")
url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
left = int(count)
while left:
    answer = sqs.receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=5, MessageSystemAttributeNames=["All"],
        MessageAttributeNames=["All"],
    )
    for message in answer["Messages"]:
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        print(json.dumps({
            "event": json.loads(message["Body"]),
            "group": message["Attributes"].get("MessageGroupId"),
            "dedup": message["Attributes"].get("MessageDeduplicationId"),
            "attributes": len(message.get("MessageAttributes", {})),
        }))
        left -= 1
