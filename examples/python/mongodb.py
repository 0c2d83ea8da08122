"""Stage and consume from Python with PyMongo.

    pip install pymongo
    pillarbox --database "mongodb://localhost/shop?replicaSet=rs0" migrate
    python3 mongodb.py stage "mongodb://localhost/shop?replicaSet=rs0"
    pillarbox --database "mongodb://localhost/shop?replicaSet=rs0" relay --drain --route orders --to file:orders.ndjson

    pillarbox --database "mongodb://localhost/billing?replicaSet=rs0" migrate
    python3 mongodb.py consume "mongodb://localhost/billing?replicaSet=rs0" < orders.ndjson

What is consumed comes from stdin, one CloudEvent a line, as `file:` and `stdout:` write it. With a broker only `consume` is
different.
"""

import json
import sys
import time
import uuid

import bson
import pymongo
from bson.binary import Binary, UuidRepresentation

CONSUMER = "billing"


def place(client, order):
    """The order and the event are committed together, or neither is."""
    db = client.get_default_database()

    def work(session):
        db.orders.insert_one({"_id": order["id"], "total": order["total"]}, session=session)
        # A string arrives byte for byte. The server puts its own stamp in the place of the empty one.
        event = {"seq": bson.Timestamp(0, 0), "route": "orders", "type": "order.placed", "key": order["id"]}
        db.pillarbox_outbox.insert_one({**event, "payload": json.dumps(order)}, session=session)
        if order["total"] == 0:
            raise ValueError("an order needs a total")

    # It runs again where another transaction was in the way.
    with client.start_session() as session:
        session.with_transaction(work)


def apply(client, event):
    """The mark and the invoice are both there, or neither is. False when the event was applied before."""
    db = client.get_default_database()
    event_id = Binary.from_uuid(uuid.UUID(event["id"]), UuidRepresentation.STANDARD)
    order = event["data"]

    def work(session):
        # A failed insert would end the transaction, so the mark is an update that adds what is missing.
        mark = {"$setOnInsert": {"accepted_at": time.time_ns() // 1000}}
        name = {"_id": {"consumer": CONSUMER, "event_id": event_id}}
        marked = db.pillarbox_inbox.update_one(name, mark, upsert=True, session=session)
        if marked.upserted_id is None:
            return False
        db.invoices.insert_one({"order_id": order["id"], "total": order["total"]}, session=session)
        return True

    with client.start_session() as session:
        return session.with_transaction(work)


def stage(client):
    for number, total in enumerate([10, 0, 30], start=1):
        order = {"id": f"p-{number}", "total": total, "note": 'C:\\temp "quoted"'}
        try:
            place(client, order)
            print(f"{order['id']}: placed")
        except ValueError as error:
            print(f"{order['id']}: {error}: rolled back, its event with it")


def consume(client):
    for line in sys.stdin:
        event = json.loads(line)
        order = event["data"]
        # With a broker, acknowledge after this: after the commit.
        first = apply(client, event)
        print(f"invoice for {order['id']} over {order['total']}" if first else f"{order['id']} came again")


if __name__ == "__main__":
    action, url = sys.argv[1:]
    with pymongo.MongoClient(url) as connection:
        {"stage": stage, "consume": consume}[action](connection)
