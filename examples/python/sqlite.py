"""Stage and consume from Python with nothing but the standard library.

    pillarbox --database sqlite://shop.db migrate
    python3 sqlite.py stage shop.db
    pillarbox --database sqlite://shop.db relay --drain --route orders --to file:orders.ndjson

    pillarbox --database sqlite://billing.db migrate
    python3 sqlite.py consume billing.db < orders.ndjson

What is consumed comes from stdin, one CloudEvent a line, as `file:` and `stdout:` write it. With a broker only `consume` is
different: see consume.py.
"""

import json
import sqlite3
import sys
from contextlib import contextmanager

CONSUMER = "billing"


@contextmanager
def transaction(db):
    """Commits what is done inside, or rolls all of it back."""
    db.execute("begin immediate")
    try:
        yield
    except BaseException:
        db.execute("rollback")
        raise
    db.execute("commit")


def place(db, order):
    """The business row and the event are committed together, or neither is."""
    with transaction(db):
        db.execute("insert into orders (id, total) values (?, ?)", (order["id"], order["total"]))
        # A string arrives byte for byte. Bytes that are no text go into payload_bytes.
        db.execute(
            "insert into pillarbox_outbox (route, type, key, payload) values (?, ?, ?, ?)",
            ("orders", "order.placed", order["id"], json.dumps(order)),
        )
        if order["total"] == 0:
            raise ValueError("an order needs a total")


def apply(db, event):
    """The mark and the invoice are both there, or neither is. False when the event was applied before."""
    with transaction(db):
        marked = db.execute(
            "insert into pillarbox_inbox (consumer, event_id) values (?, ?) on conflict do nothing",
            (CONSUMER, event["id"]),
        )
        if marked.rowcount == 0:
            return False
        order = event["data"]
        db.execute("insert into invoices (order_id, total) values (?, ?)", (order["id"], order["total"]))
        return True


def stage(db):
    db.execute("create table if not exists orders (id text primary key, total integer not null)")
    for number, total in enumerate([10, 0, 30], start=1):
        order = {"id": f"p-{number}", "total": total, "note": 'C:\\temp "quoted"'}
        try:
            place(db, order)
            print(f"{order['id']}: placed")
        except ValueError as error:
            print(f"{order['id']}: {error}: rolled back, its event with it")


def consume(db):
    db.execute("create table if not exists invoices (order_id text not null, total integer not null)")
    for line in sys.stdin:
        event = json.loads(line)
        order = event["data"]
        # With a broker, acknowledge after this: after the commit.
        first = apply(db, event)
        print(f"invoice for {order['id']} over {order['total']}" if first else f"{order['id']} came again")


if __name__ == "__main__":
    action, path = sys.argv[1:]
    database = sqlite3.connect(path, isolation_level=None, timeout=10)
    {"stage": stage, "consume": consume}[action](database)
    database.close()
