//! The order service with diesel on SQLite: the closure of a transaction gets the connection, and an error rolls back.
//!
//! On PostgreSQL the same calls take a `PgConnection`.
//!
//! `DATABASE_URL=orders.db cargo run -p pillarbox-examples --bin order-service-diesel -- events.ndjson`

mod shop;

use diesel::connection::SimpleConnection;
use diesel::sql_types::{Integer, Text};
use diesel::{Connection, RunQueryDsl, SqliteConnection, sql_query};
use pillarbox::sqlite::{Inbox, Options, Outbox, SqliteStore};
use pillarbox::{AcceptRequest, Accepted, Event, EventId};
use shop::{Failure, Order};

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let (file, events) = shop::arguments()?;
    let store = SqliteStore::connect(&format!("sqlite://{file}"), Options::default()).await?;
    store.migrate().await?;

    let mut connection = SqliteConnection::establish(&file)?;
    // SQLite has one writer at a time: this one waits for the relay, and the relay for it.
    connection.batch_execute(
        "pragma busy_timeout = 5000;
         create table if not exists orders (id text primary key, total integer not null);
         create table if not exists invoices (order_id text primary key)",
    )?;

    let (outbox, inbox) = (store.outbox("orders"), store.inbox());
    let mut accepted = Vec::new();
    for order in shop::orders() {
        let placed = place(&mut connection, &outbox, &order);
        let Some(event) = shop::told(&order, placed) else { continue };
        // Billing gets each event twice, as after a lost acknowledgement.
        for _ in 0..2 {
            accepted.push(bill(&mut connection, &inbox, event, &order)?);
        }
    }
    shop::billed(&accepted);
    shop::deliver(store, &events).await
}

fn place(connection: &mut SqliteConnection, outbox: &Outbox, order: &Order) -> Result<EventId, Failure> {
    // With the write lock from the start: what this transaction reads, nobody changes before its end.
    connection.immediate_transaction(|connection| {
        sql_query("insert into orders (id, total) values (?, ?) on conflict do nothing")
            .bind::<Text, _>(&order.id)
            .bind::<Integer, _>(order.total)
            .execute(connection)?;
        let staged = outbox.stage(connection, Event::json("order.placed", order)?.key(&order.id))?;
        shop::check(order)?;
        Ok(staged.event_id())
    })
}

fn bill(
    connection: &mut SqliteConnection,
    inbox: &Inbox,
    event: EventId,
    order: &Order,
) -> Result<Accepted, Failure> {
    connection.immediate_transaction(|connection| {
        let accepted = inbox.accept(connection, AcceptRequest::new("billing", event))?;
        if accepted == Accepted::Fresh {
            let insert = sql_query("insert into invoices (order_id) values (?)");
            insert.bind::<Text, _>(&order.id).execute(connection)?;
        }
        Ok(accepted)
    })
}
