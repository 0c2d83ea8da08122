"""effaced's saga runner with its database audit: subjects of three entries each, to their completion."""

import asyncio
from datetime import UTC, datetime
from uuid import uuid4

from clock import JOBS, URL, handled, report
from effaced import (
    DatabaseAuditSink,
    Outbox,
    OutboxEntry,
    ResolverErasure,
    ResolverRegistry,
    SagaRunner,
    SubjectRef,
    bind_tables,
)
from sqlalchemy import MetaData, create_engine
from sqlalchemy.orm import sessionmaker

STEPS = ("crm", "files", "payments")
BATCH = 500


class Noop:
    def __init__(self, name: str) -> None:
        self.name = name

    async def erase_subject(self, ref: SubjectRef) -> ResolverErasure:
        return ResolverErasure(resolver=self.name)

    async def export_subject(self, ref: SubjectRef):
        raise NotImplementedError


def main() -> None:
    engine = create_engine(URL.replace("postgres://", "postgresql+psycopg://"))
    metadata = MetaData()
    tables = bind_tables(metadata)
    metadata.create_all(engine)
    factory = sessionmaker(engine)
    outbox = Outbox(factory, tables.outbox)
    registry = ResolverRegistry()
    for name in STEPS:
        registry.register(Noop(name))
    runner = SagaRunner(registry, outbox, DatabaseAuditSink(factory, tables.audit_events), batch_size=BATCH)
    now = datetime.now(UTC)
    entries = [
        OutboxEntry(
            entry_id=uuid4(),
            subject_id=f"s-{number // len(STEPS)}",
            resolver=STEPS[number % len(STEPS)],
            ref=SubjectRef(kind="noop", value="x" * 180),
            enqueued_at=now,
        )
        for number in range(JOBS)
    ]
    with factory() as session, session.begin():
        outbox.enqueue(session, entries)
    handled(0)
    while done := asyncio.run(runner.run_once()):
        handled(done)
    report("effaced")


main()
