"""procrastinate with 20 jobs at once."""

import asyncio
import logging

import procrastinate
from clock import JOBS, PAYLOAD, URL, handled, report

CONCURRENCY = 20
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=URL, max_size=CONCURRENCY + 2))


@app.task(name="noop")
async def noop(text: str) -> None:
    handled()


async def main() -> None:
    logging.disable(logging.CRITICAL)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for begin in range(0, JOBS, 500):
            count = min(500, JOBS - begin)
            await noop.batch_defer_async(*[PAYLOAD] * count)
        await app.run_worker_async(
            concurrency=CONCURRENCY, wait=False, listen_notify=False, install_signal_handlers=False
        )
    report("procrastinate")


asyncio.run(main())
