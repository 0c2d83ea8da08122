// pg-boss by its own batches: two workers that fetch and complete 500 at once.
import PgBoss from "pg-boss";
import { handled, jobs, payload, report } from "./clock.mjs";

const BATCH = 500;
const WORKERS = 2;
const boss = new PgBoss({ connectionString: process.env.DATABASE_URL, supervise: false, schedule: false });
boss.on("error", (error) => {
  throw error;
});
await boss.start();
await boss.createQueue("noop");
for (let from = 0; from < jobs; from += 1000) {
  const count = Math.min(1000, jobs - from);
  await boss.insert(Array.from({ length: count }, () => ({ name: "noop", data: payload })));
}

async function work() {
  for (;;) {
    const batch = await boss.fetch("noop", { batchSize: BATCH });
    if (!batch?.length) return;
    handled(0);
    await boss.complete("noop", batch.map((job) => job.id));
    handled(batch.length);
  }
}

await Promise.all(Array.from({ length: WORKERS }, work));
report("pg-boss");
process.exit(0);
