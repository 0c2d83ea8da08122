//! The order service with rusqlite: its own transactions, which block, and a relay on the store.
//!
//! `DATABASE_URL=orders.db cargo run -p pillarbox-examples --bin order-service-rusqlite -- events.ndjson`

mod shop;

use std::time::Duration;

use pillarbox::sqlite::{Inbox, Options, Outbox, SqliteStore};
use pillarbox::{AcceptRequest, Accepted, Event, EventId};
use rusqlite::{Connection, TransactionBehavior, params};
use shop::{Failure, Order};

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let (file, events) = shop::arguments()?;
    let store = SqliteStore::connect(&format!("sqlite://{file}"), Options::default()).await?;
    store.migrate().await?;

    let mut connection = Connection::open(&file)?;
    // SQLite has one writer at a time: this one waits for the relay, and the relay for it.
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.execute_batch(
        "create table if not exists orders (id text primary key, total integer not null);
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

fn place(connection: &mut Connection, outbox: &Outbox, order: &Order) -> Result<EventId, Failure> {
    // With the write lock from the start: what this transaction reads, nobody changes before its end.
    let mut tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let insert = "insert into orders (id, total) values (?1, ?2) on conflict do nothing";
    tx.execute(insert, params![order.id, order.total])?;
    let staged = outbox.stage(&mut tx, Event::json("order.placed", order)?.key(&order.id))?;
    // On an error the transaction is dropped, and with it everything in it.
    shop::check(order)?;
    tx.commit()?;
    Ok(staged.event_id())
}

fn bill(
    connection: &mut Connection,
    inbox: &Inbox,
    event: EventId,
    order: &Order,
) -> Result<Accepted, Failure> {
    let mut tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let accepted = inbox.accept(&mut tx, AcceptRequest::new("billing", event))?;
    if accepted == Accepted::Fresh {
        tx.execute("insert into invoices (order_id) values (?1)", [&order.id])?;
    }
    tx.commit()?;
    Ok(accepted)
}
