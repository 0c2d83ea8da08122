"""Stage from Python with nothing but the standard library: the order and its event are one transaction.

    pillarbox --database sqlite://shop.db migrate
    python3 stage.py shop.db
    pillarbox --database sqlite://shop.db relay --drain --route orders --to stdout:
"""

import json
import sqlite3
import sys


def place(db, order):
    """One transaction: the business row and the event are committed together, or neither is."""
    with db:
        db.execute("insert into orders (id, total) values (?, ?)", (order["id"], order["total"]))
        db.execute(
            "insert into pillarbox_outbox (route, type, key, payload) values (?, ?, ?, ?)",
            ("orders", "order.placed", order["id"], json.dumps(order)),
        )
        if order["total"] == 0:
            raise ValueError("an order needs a total")


def main(path):
    db = sqlite3.connect(path)
    db.execute("create table if not exists orders (id text primary key, total integer not null)")
    db.commit()
    for number, total in enumerate([10, 0, 30], start=1):
        try:
            place(db, {"id": f"p-{number}", "total": total})
            print(f"p-{number}: placed")
        except ValueError as error:
            print(f"p-{number}: {error}: rolled back, its event with it")
    db.close()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "shop.db")
