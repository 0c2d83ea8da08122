"""Consume from Python: the mark in the inbox and the invoice are one transaction, and the message is acknowledged after it.

    pip install redis
    pillarbox --database sqlite://billing.db migrate
    python3 consume.py billing.db "redis://127.0.0.1:6379/0?stream=orders&group=billing"

The messages come from a Redis stream; with any other broker only `main` is different. Ctrl-C ends it.
"""

import json
import signal
import sqlite3
import sys
import urllib.parse
import uuid

import redis

CONSUMER = "billing"


def apply(db, event_id, order):
    """One transaction: both rows are there, or neither is. False when the event was applied before."""
    db.execute("begin immediate")
    try:
        marked = db.execute(
            "insert into pillarbox_inbox (consumer, event_id) values (?, ?) on conflict do nothing",
            (CONSUMER, str(uuid.UUID(event_id))),
        )
        if marked.rowcount == 1:
            db.execute("insert into invoices (order_id, total) values (?, ?)", (order["id"], order["total"]))
        db.execute("commit")
        return marked.rowcount == 1
    except BaseException:
        db.execute("rollback")
        raise


def messages(server, stream, group):
    """First what this consumer was given before it died, then whatever comes."""
    after = "0"
    while True:
        for _, entries in server.xreadgroup(group, CONSUMER, {stream: after}, count=10, block=1000) or []:
            if after != ">" and not entries:
                after = ">"
            for entry, fields in entries:
                after = entry if after != ">" else after
                yield entry, fields[b"ce-id"].decode(), json.loads(fields[b"data"])


def main(path, url):
    address = urllib.parse.urlsplit(url)
    query = dict(urllib.parse.parse_qsl(address.query))
    stream, group = query["stream"], query["group"]
    server = redis.Redis.from_url(address._replace(query="").geturl())
    try:
        server.xgroup_create(stream, group, id="0", mkstream=True)
    except redis.ResponseError as error:
        if not str(error).startswith("BUSYGROUP"):
            raise
    # Autocommit: the transactions are ours to begin.
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("create table if not exists invoices (order_id text not null, total integer not null)")
    print("waiting for orders", flush=True)
    for entry, event_id, order in messages(server, stream, group):
        if apply(db, event_id, order):
            print(f"invoice for {order['id']} over {order['total']}", flush=True)
        else:
            print(f"{order['id']} came again", flush=True)
        server.xack(stream, group, entry)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
    main(sys.argv[1], sys.argv[2])
