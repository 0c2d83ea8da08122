// Stage and consume from Node with mongodb.
//
//     npm install mongodb
//     pillarbox --database "mongodb://localhost/shop?replicaSet=rs0" migrate
//     node mongodb.js stage "mongodb://localhost/shop?replicaSet=rs0"
//     pillarbox --database "mongodb://localhost/shop?replicaSet=rs0" relay --drain --route orders --to file:orders.ndjson
//
//     pillarbox --database "mongodb://localhost/billing?replicaSet=rs0" migrate
//     node mongodb.js consume "mongodb://localhost/billing?replicaSet=rs0" < orders.ndjson
//
// What is consumed comes from stdin, one CloudEvent a line, as `file:` and `stdout:` write it; with a broker only `main` is
// different.

"use strict";

const readline = require("node:readline");
const { Long, MongoClient, Timestamp, UUID } = require("mongodb");

const CONSUMER = "billing";

/** The order and the event are committed together, or neither is. It runs again where another one was in the way. */
function place(client, order) {
  const db = client.db();
  return client.withSession((session) =>
    session.withTransaction(async () => {
      await db.collection("orders").insertOne({ _id: order.id, total: order.total }, { session });
      // A string arrives byte for byte. The server puts its own stamp in the place of the empty one.
      const event = { seq: new Timestamp({ t: 0, i: 0 }), route: "orders", type: "order.placed", key: order.id };
      await db.collection("pillarbox_outbox").insertOne({ ...event, payload: JSON.stringify(order) }, { session });
      if (order.total === 0) throw new Error("an order needs a total");
    }),
  );
}

/** The mark and the invoice are both there, or neither is. False when the event was applied before. */
function apply(client, event) {
  const db = client.db();
  return client.withSession((session) =>
    session.withTransaction(async () => {
      // A failed insert would end the transaction, so the mark is an update that adds what is missing.
      const name = { _id: { consumer: CONSUMER, event_id: new UUID(event.id) } };
      const mark = { $setOnInsert: { accepted_at: Long.fromNumber(Date.now() * 1000) } };
      const marked = await db.collection("pillarbox_inbox").updateOne(name, mark, { upsert: true, session });
      if (marked.upsertedCount === 0) return false;
      const { id, total } = event.data;
      await db.collection("invoices").insertOne({ order_id: id, total }, { session });
      return true;
    }),
  );
}

async function stage(client) {
  for (const [index, total] of [10, 0, 30].entries()) {
    const id = `n-${index + 1}`;
    try {
      await place(client, { id, total, note: 'C:\\temp "quoted"' });
      console.log(`${id}: placed`);
    } catch (error) {
      console.log(`${id}: ${error.message}: rolled back, its event with it`);
    }
  }
}

async function consume(client) {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const event = JSON.parse(line);
    const first = await apply(client, event);
    // With a broker, this is the place to acknowledge: after the commit.
    console.log(first ? `invoice for ${event.data.id} over ${event.data.total}` : `${event.data.id} came again`);
  }
}

async function main(action, url) {
  const client = await MongoClient.connect(url);
  await { stage, consume }[action](client);
  await client.close();
}

main(...process.argv.slice(2));
