// agenda on MongoDB, up to 500 jobs at once and a look every 100 ms. It locks one job after the other in each look.
import { MongoBackend } from "@agendajs/mongo-backend";
import { Agenda } from "agenda";
import { MongoClient } from "mongodb";
import { handled, jobs, payload, report } from "./clock.mjs";

const AT_ONCE = 500;
const client = await MongoClient.connect(process.env.DATABASE_URL);
const agenda = new Agenda({
  backend: new MongoBackend({ mongo: client.db(), ensureIndex: true }),
  processEvery: 100,
  maxConcurrency: AT_ONCE,
  lockLimit: AT_ONCE,
  defaultConcurrency: AT_ONCE,
  defaultLockLimit: AT_ONCE,
});
agenda.on("error", (error) => {
  throw error;
});
await agenda.ready;
for (let from = 0; from < jobs; from += 100) {
  const count = Math.min(100, jobs - from);
  await Promise.all(Array.from({ length: count }, () => agenda.now("noop", payload)));
}

let finish;
const finished = new Promise((resolve) => (finish = resolve));
agenda.define("noop", async () => void handled(0));
agenda.on("complete", () => void (handled() && finish()));
await agenda.start();
await finished;
report("agenda");
process.exit(0);
