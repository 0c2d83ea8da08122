// Stage and consume from Node with better-sqlite3.
//
//     npm install better-sqlite3
//     pillarbox --database sqlite://shop.db migrate
//     node sqlite.js stage shop.db
//     pillarbox --database sqlite://shop.db relay --drain --route orders --to file:orders.ndjson
//
//     pillarbox --database sqlite://billing.db migrate
//     node sqlite.js consume billing.db < orders.ndjson
//
// What is consumed comes from stdin, one CloudEvent a line, as `file:` and `stdout:` write it; with a broker only `main` is
// different.

"use strict";

const readline = require("node:readline");
const Database = require("better-sqlite3");

const CONSUMER = "billing";

/** One transaction: the business row and the event are committed together, or neither is. */
function place(db, order) {
  db.transaction(() => {
    db.prepare("insert into orders (id, total) values (?, ?)").run(order.id, order.total);
    // A string arrives byte for byte; bytes that are no text go into payload_bytes.
    db.prepare("insert into pillarbox_outbox (route, type, key, payload) values (?, ?, ?, ?)").run(
      "orders",
      "order.placed",
      order.id,
      JSON.stringify(order),
    );
    if (order.total === 0) throw new Error("an order needs a total");
  }).immediate();
}

/** One transaction: the mark and the invoice are both there, or neither is. False when the event was applied before. */
function apply(db, event) {
  return db.transaction(() => {
    const marked = db
      .prepare("insert into pillarbox_inbox (consumer, event_id) values (?, ?) on conflict do nothing")
      .run(CONSUMER, event.id.toLowerCase());
    if (marked.changes === 0) return false;
    db.prepare("insert into invoices (order_id, total) values (?, ?)").run(event.data.id, event.data.total);
    return true;
  }).immediate();
}

function stage(db) {
  db.exec("create table if not exists orders (id text primary key, total integer not null)");
  for (const [index, total] of [10, 0, 30].entries()) {
    const id = `n-${index + 1}`;
    try {
      place(db, { id, total, note: 'C:\\temp "quoted"' });
      console.log(`${id}: placed`);
    } catch (error) {
      console.log(`${id}: ${error.message}: rolled back, its event with it`);
    }
  }
}

async function consume(db) {
  db.exec("create table if not exists invoices (order_id text not null, total integer not null)");
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const event = JSON.parse(line);
    const first = apply(db, event);
    // With a broker, this is the place to acknowledge: after the commit.
    console.log(first ? `invoice for ${event.data.id} over ${event.data.total}` : `${event.data.id} came again`);
  }
}

async function main(action, path) {
  const db = new Database(path);
  await { stage, consume }[action](db);
  db.close();
}

main(...process.argv.slice(2));
