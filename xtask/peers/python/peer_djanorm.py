"""djanorm's outbox relay in batches of 500, its handler doing nothing."""

import dorm
from clock import JOBS, PAYLOAD, URL, handled, report
from dorm.contrib.outbox import OutboxEvent, OutboxRelay, record_event
from dorm.db.connection import get_connection
from dorm.migrations.operations import CreateModel
from dorm.transaction import atomic

BATCH = 500

dorm.configure(DATABASES={"default": {"URL": URL}}, INSTALLED_APPS=[])


class Outbox(OutboxEvent):
    class Meta:
        db_table = "outbox"
        app_label = "bench"


def main() -> None:
    fields = [(field.name, field) for field in Outbox._meta.fields]
    create = CreateModel("Outbox", fields, {"db_table": "outbox"})
    create.database_forwards("bench", get_connection(), None, None)
    with atomic():
        for _ in range(JOBS):
            record_event(Outbox, "noop", PAYLOAD)

    def noop(_row) -> bool:
        handled()
        return True

    relay = OutboxRelay(Outbox, batch_size=BATCH)
    while relay.drain_once(noop):
        pass
    report("djanorm")


main()
