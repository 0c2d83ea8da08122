// graphile-worker with the settings of its own benchmark: a local queue and batched completion.
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import { handled, jobs, payload, report } from "./clock.mjs";

const preset = {
  worker: {
    connectionString: process.env.DATABASE_URL,
    concurrentJobs: 24,
    maxPoolSize: 25,
    localQueue: { size: 500 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
    // One line a job would be what is measured.
    logger: new Logger(() => () => {}),
  },
};

const utils = await makeWorkerUtils({ preset });
await utils.migrate();
for (let from = 0; from < jobs; from += 1000) {
  const count = Math.min(1000, jobs - from);
  await utils.addJobs(Array.from({ length: count }, () => ({ identifier: "noop", payload })));
}
await utils.release();

let finish;
const finished = new Promise((resolve) => (finish = resolve));
const taskList = { noop: async () => void (handled() && finish()) };
const runner = await run({ preset, taskList, noHandleSignals: true });
await finished;
report("graphile-worker");
await runner.stop();
process.exit(0);
