"""Stage and consume from Python with psycopg.

    pip install "psycopg[binary]"
    pillarbox --database postgres://localhost/shop migrate
    python3 postgres.py stage postgres://localhost/shop
    pillarbox --database postgres://localhost/shop relay --drain --route orders --to file:orders.ndjson

    pillarbox --database postgres://localhost/billing migrate
    python3 postgres.py consume postgres://localhost/billing < orders.ndjson

What is consumed comes from stdin, one CloudEvent a line, as `file:` and `stdout:` write it. With a broker only `consume` is
different.
"""

import json
import sys
from contextlib import contextmanager

import psycopg
from psycopg.pq import TransactionStatus

CONSUMER = "billing"


@contextmanager
def transaction(db):
    """Commits what is done inside, or rolls all of it back."""
    with db.transaction():
        yield
        # A statement that failed and was caught leaves a transaction that only rolls back, and COMMIT does not complain.
        if db.info.transaction_status != TransactionStatus.INTRANS:
            raise RuntimeError("a statement had failed: rolled back")


def place(db, order):
    """The business row and the event are committed together, or neither is."""
    with transaction(db):
        db.execute("insert into orders (id, total) values (%s, %s)", (order["id"], order["total"]))
        # A string arrives byte for byte. Bytes that are no text go into payload_bytes.
        db.execute(
            "insert into pillarbox_outbox (route, type, key, payload) values (%s, %s, %s, %s)",
            ("orders", "order.placed", order["id"], json.dumps(order)),
        )
        if order["total"] == 0:
            raise ValueError("an order needs a total")


def apply(db, event):
    """The mark and the invoice are both there, or neither is. False when the event was applied before."""
    with transaction(db):
        marked = db.execute(
            "insert into pillarbox_inbox (consumer, event_id) values (%s, %s) on conflict do nothing",
            (CONSUMER, event["id"]),
        )
        if marked.rowcount == 0:
            return False
        order = event["data"]
        db.execute("insert into invoices (order_id, total) values (%s, %s)", (order["id"], order["total"]))
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
    action, url = sys.argv[1:]
    with psycopg.connect(url, autocommit=True) as connection:
        {"stage": stage, "consume": consume}[action](connection)
