// mongodb-queue, which takes and acknowledges one message at a time: several do so beside one another.
import mongodb from "mongodb-v3";
import mongoDbQueue from "mongodb-queue";
import { promisify } from "node:util";
import { handled, jobs, payload, report } from "./clock.mjs";

const WORKERS = 32;
// The last driver with the callbacks that it is written for.
const options = { useUnifiedTopology: true, poolSize: WORKERS };
const client = await mongodb.MongoClient.connect(process.env.DATABASE_URL, options);
const queue = mongoDbQueue(client.db(), "noop", { visibility: 600 });
const [createIndexes, add, get, ack] = ["createIndexes", "add", "get", "ack"].map((name) =>
  promisify(queue[name].bind(queue)),
);
await createIndexes();
for (let from = 0; from < jobs; from += 1000) {
  await add(Array.from({ length: Math.min(1000, jobs - from) }, () => payload));
}

async function work() {
  for (let message; (message = await get()); ) {
    handled(0);
    await ack(message.ack);
    handled();
  }
}

await Promise.all(Array.from({ length: WORKERS }, work));
report("mongodb-queue");
process.exit(0);
