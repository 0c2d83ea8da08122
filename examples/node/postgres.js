// Stage and consume from Node with pg.
//
//     npm install pg
//     pillarbox --database postgres://localhost/shop migrate
//     node postgres.js stage postgres://localhost/shop
//     pillarbox --database postgres://localhost/shop relay --drain --route orders --to file:orders.ndjson
//
//     pillarbox --database postgres://localhost/billing migrate
//     node postgres.js consume postgres://localhost/billing < orders.ndjson
//
// What is consumed comes from stdin, one CloudEvent a line, as `file:` and `stdout:` write it; with a broker only `main` is
// different.

"use strict";

const readline = require("node:readline");
const { Client } = require("pg");

const CONSUMER = "billing";

/** Runs what is done in it in one transaction. */
async function transaction(client, work) {
  await client.query("begin");
  try {
    const result = await work();
    // A statement that failed and was caught leaves a transaction that only rolls back, and PostgreSQL says so here only.
    const ended = await client.query("commit");
    if (ended.command !== "COMMIT") throw new Error("a statement had failed: rolled back");
    return result;
  } catch (error) {
    await client.query("rollback");
    throw error;
  }
}

/** The business row and the event are committed together, or neither is. */
function place(client, order) {
  return transaction(client, async () => {
    await client.query("insert into orders (id, total) values ($1, $2)", [order.id, order.total]);
    // A string arrives byte for byte; bytes that are no text go into payload_bytes.
    await client.query("insert into pillarbox_outbox (route, type, key, payload) values ($1, $2, $3, $4)", [
      "orders",
      "order.placed",
      order.id,
      JSON.stringify(order),
    ]);
    if (order.total === 0) throw new Error("an order needs a total");
  });
}

/** The mark and the invoice are both there, or neither is. False when the event was applied before. */
function apply(client, event) {
  return transaction(client, async () => {
    const marked = await client.query(
      "insert into pillarbox_inbox (consumer, event_id) values ($1, $2) on conflict do nothing",
      [CONSUMER, event.id],
    );
    if (marked.rowCount === 0) return false;
    const { id, total } = event.data;
    await client.query("insert into invoices (order_id, total) values ($1, $2)", [id, total]);
    return true;
  });
}

async function stage(client) {
  await client.query("create table if not exists orders (id text primary key, total integer not null)");
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
  await client.query("create table if not exists invoices (order_id text not null, total integer not null)");
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const event = JSON.parse(line);
    const first = await apply(client, event);
    // With a broker, this is the place to acknowledge: after the commit.
    console.log(first ? `invoice for ${event.data.id} over ${event.data.total}` : `${event.data.id} came again`);
  }
}

async function main(action, connectionString) {
  const client = new Client({ connectionString });
  await client.connect();
  await { stage, consume }[action](client);
  await client.end();
}

main(...process.argv.slice(2));
