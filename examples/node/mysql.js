// Stage and consume from Node with mysql2, on MariaDB or MySQL.
//
//     npm install mysql2
//     pillarbox --database mysql://root@localhost/shop migrate
//     node mysql.js stage mysql://root@localhost/shop
//     pillarbox --database mysql://root@localhost/shop relay --drain --route orders --to file:orders.ndjson
//
//     pillarbox --database mysql://root@localhost/billing migrate
//     node mysql.js consume mysql://root@localhost/billing < orders.ndjson
//
// What is consumed comes from stdin, one CloudEvent a line, as `file:` and `stdout:` write it; with a broker only `main` is
// different.

"use strict";

const readline = require("node:readline");
const mysql = require("mysql2/promise");

const CONSUMER = "billing";

/** Runs what is done in it in one transaction. A deadlock has rolled back already: let its error through. */
async function transaction(connection, work) {
  await connection.beginTransaction();
  try {
    const result = await work();
    await connection.commit();
    return result;
  } catch (error) {
    await connection.rollback();
    throw error;
  }
}

/** The business row and the event are committed together, or neither is. */
function place(connection, order) {
  return transaction(connection, async () => {
    await connection.execute("insert into orders (id, total) values (?, ?)", [order.id, order.total]);
    // A string arrives byte for byte; bytes that are no text go into payload_bytes. `key` is a reserved word.
    await connection.execute("insert into pillarbox_outbox (route, type, `key`, payload) values (?, ?, ?, ?)", [
      "orders",
      "order.placed",
      order.id,
      JSON.stringify(order),
    ]);
    if (order.total === 0) throw new Error("an order needs a total");
  });
}

/** The mark and the invoice are both there, or neither is. False when the event was applied before. */
function apply(connection, event) {
  return transaction(connection, async () => {
    const [marked] = await connection.execute(
      "insert ignore into pillarbox_inbox (consumer, event_id) values (?, unhex(replace(?, '-', '')))",
      [CONSUMER, event.id],
    );
    if (marked.affectedRows === 0) return false;
    const { id, total } = event.data;
    await connection.execute("insert into invoices (order_id, total) values (?, ?)", [id, total]);
    return true;
  });
}

async function stage(connection) {
  await connection.query("create table if not exists orders (id varchar(64) primary key, total integer not null)");
  for (const [index, total] of [10, 0, 30].entries()) {
    const id = `n-${index + 1}`;
    try {
      await place(connection, { id, total, note: 'C:\\temp "quoted"' });
      console.log(`${id}: placed`);
    } catch (error) {
      console.log(`${id}: ${error.message}: rolled back, its event with it`);
    }
  }
}

async function consume(connection) {
  await connection.query(
    "create table if not exists invoices (order_id varchar(64) not null, total integer not null)",
  );
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const event = JSON.parse(line);
    const first = await apply(connection, event);
    // With a broker, this is the place to acknowledge: after the commit.
    console.log(first ? `invoice for ${event.data.id} over ${event.data.total}` : `${event.data.id} came again`);
  }
}

async function main(action, url) {
  const connection = await mysql.createConnection({ uri: url, charset: "utf8mb4" });
  await { stage, consume }[action](connection);
  await connection.end();
}

main(...process.argv.slice(2));
