"""effaced's outbox: claim a batch, mark each as succeeded. Nothing else of it is measured."""

from datetime import UTC, datetime
from uuid import uuid4

from clock import JOBS, URL, handled, report
from effaced import Outbox, OutboxEntry, SubjectRef, bind_tables
from sqlalchemy import MetaData, create_engine
from sqlalchemy.orm import sessionmaker

BATCH = 100


def main() -> None:
    drivers = {"postgres": "postgresql+psycopg", "mysql": "mysql+pymysql"}
    scheme, rest = URL.split("://", 1)
    engine = create_engine(f"{drivers[scheme]}://{rest}")
    metadata = MetaData()
    tables = bind_tables(metadata)
    metadata.create_all(engine)
    factory = sessionmaker(engine)
    outbox = Outbox(factory, tables.outbox)
    now = datetime.now(UTC)
    entries = [
        OutboxEntry(
            entry_id=uuid4(),
            subject_id=f"s-{number}",
            resolver="noop",
            ref=SubjectRef(kind="noop", value="x" * 180),
            enqueued_at=now,
        )
        for number in range(JOBS)
    ]
    with factory() as session, session.begin():
        outbox.enqueue(session, entries)
    while batch := outbox.claim_batch(BATCH):
        for entry in batch:
            handled(0)
            outbox.mark_succeeded(entry, on_subject_complete=lambda: None)
            handled()
    report("effaced")


main()
