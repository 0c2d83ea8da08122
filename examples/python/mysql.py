"""Stage and consume from Python with PyMySQL, on MariaDB or MySQL.

    pip install pymysql
    pillarbox --database mysql://root@localhost/shop migrate
    python3 mysql.py stage mysql://root@localhost/shop
    pillarbox --database mysql://root@localhost/shop relay --drain --route orders --to file:orders.ndjson

    pillarbox --database mysql://root@localhost/billing migrate
    python3 mysql.py consume mysql://root@localhost/billing < orders.ndjson

What is consumed comes from stdin, one CloudEvent a line, as `file:` and `stdout:` write it. With a broker only `consume` is
different.
"""

import json
import sys
import urllib.parse
import uuid
from contextlib import contextmanager

import pymysql

CONSUMER = "billing"


@contextmanager
def transaction(db):
    """Commits what is done inside, or rolls all of it back. A deadlock has rolled back already: let its error through."""
    db.begin()
    try:
        with db.cursor() as cursor:
            yield cursor
        db.commit()
    except BaseException:
        db.rollback()
        raise


def place(db, order):
    """The business row and the event are committed together, or neither is."""
    with transaction(db) as cursor:
        cursor.execute("insert into orders (id, total) values (%s, %s)", (order["id"], order["total"]))
        # A string arrives byte for byte. Bytes that are no text go into payload_bytes. `key` is a reserved word.
        cursor.execute(
            "insert into pillarbox_outbox (route, type, `key`, payload) values (%s, %s, %s, %s)",
            ("orders", "order.placed", order["id"], json.dumps(order)),
        )
        if order["total"] == 0:
            raise ValueError("an order needs a total")


def apply(db, event):
    """The mark and the invoice are both there, or neither is. False when the event was applied before."""
    with transaction(db) as cursor:
        marked = cursor.execute(
            "insert ignore into pillarbox_inbox (consumer, event_id) values (%s, %s)",
            (CONSUMER, uuid.UUID(event["id"]).bytes),
        )
        if marked == 0:
            return False
        order = event["data"]
        cursor.execute("insert into invoices (order_id, total) values (%s, %s)", (order["id"], order["total"]))
        return True


def stage(db):
    with db.cursor() as cursor:
        cursor.execute("create table if not exists orders (id varchar(64) primary key, total integer not null)")
    for number, total in enumerate([10, 0, 30], start=1):
        order = {"id": f"p-{number}", "total": total, "note": 'C:\\temp "quoted"'}
        try:
            place(db, order)
            print(f"{order['id']}: placed")
        except ValueError as error:
            print(f"{order['id']}: {error}: rolled back, its event with it")


def consume(db):
    with db.cursor() as cursor:
        cursor.execute("create table if not exists invoices (order_id varchar(64) not null, total integer not null)")
    for line in sys.stdin:
        event = json.loads(line)
        order = event["data"]
        # With a broker, acknowledge after this: after the commit.
        first = apply(db, event)
        print(f"invoice for {order['id']} over {order['total']}" if first else f"{order['id']} came again")


def connect(url):
    place = urllib.parse.urlsplit(url)
    return pymysql.connect(
        host=place.hostname,
        port=place.port or 3306,
        user=place.username,
        password=urllib.parse.unquote(place.password or ""),
        database=place.path.lstrip("/"),
        charset="utf8mb4",
        autocommit=True,
    )


if __name__ == "__main__":
    action, url = sys.argv[1:]
    with connect(url) as connection:
        {"stage": stage, "consume": consume}[action](connection)
