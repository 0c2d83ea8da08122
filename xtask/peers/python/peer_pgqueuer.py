"""pgqueuer with batches of 500."""

import asyncio
from datetime import timedelta

import asyncpg
from clock import JOBS, PAYLOAD, URL, handled, report
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

BATCH = 500


async def main() -> None:
    driver = AsyncpgDriver(await asyncpg.connect(URL))
    queries = Queries(driver)
    await queries.install()
    data = str(PAYLOAD).encode()
    for begin in range(0, JOBS, 1000):
        count = min(1000, JOBS - begin)
        await queries.enqueue(["noop"] * count, [data] * count, [0] * count)

    queuer = PgQueuer(driver)

    @queuer.entrypoint("noop")
    async def noop(_job) -> None:
        if handled():
            queuer.shutdown.set()

    await queuer.run(batch_size=BATCH, dequeue_timeout=timedelta(seconds=1))
    report("pgqueuer")


asyncio.run(main())
