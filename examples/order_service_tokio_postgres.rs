//! The order service with tokio-postgres: its own transactions, and a relay on the store.
//!
//! `DATABASE_URL=postgres://… cargo run -p pillarbox-examples --bin order-service-tokio-postgres -- events.ndjson`

mod shop;

use pillarbox::postgres::{Inbox, Options, Outbox, PostgresStore};
use pillarbox::{AcceptRequest, Accepted, Event, EventId};
use shop::{Failure, Order};
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls};

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let (url, events) = shop::arguments()?;
    let store = PostgresStore::connect(&url, Options::default()).await?;
    store.migrate().await?;

    let (mut client, connection) = tokio_postgres::connect(&url, NoTls).await?;
    // It works until the client is dropped, at the end of this function.
    let mut tasks = JoinSet::new();
    tasks.spawn(connection);
    client
        .batch_execute(
            "create table if not exists orders (id text primary key, total int not null);
             create table if not exists invoices (order_id text primary key)",
        )
        .await?;

    let (outbox, inbox) = (store.outbox("orders"), store.inbox());
    let mut accepted = Vec::new();
    for order in shop::orders() {
        let placed = place(&mut client, &outbox, &order).await;
        let Some(event) = shop::told(&order, placed) else { continue };
        // Billing gets each event twice, as after a lost acknowledgement.
        for _ in 0..2 {
            accepted.push(bill(&mut client, &inbox, event, &order).await?);
        }
    }
    shop::billed(&accepted);
    shop::deliver(store, &events).await
}

async fn place(client: &mut Client, outbox: &Outbox, order: &Order) -> Result<EventId, Failure> {
    let mut tx = client.transaction().await?;
    let insert = "insert into orders (id, total) values ($1, $2) on conflict do nothing";
    tx.execute(insert, &[&order.id, &order.total]).await?;
    let staged = outbox.stage(&mut tx, Event::json("order.placed", order)?.key(&order.id)).await?;
    // On an error the transaction is dropped, and with it everything in it.
    shop::check(order)?;
    tx.commit().await?;
    Ok(staged.event_id())
}

async fn bill(
    client: &mut Client,
    inbox: &Inbox,
    event: EventId,
    order: &Order,
) -> Result<Accepted, Failure> {
    let mut tx = client.transaction().await?;
    let accepted = inbox.accept(&mut tx, AcceptRequest::new("billing", event)).await?;
    if accepted == Accepted::Fresh {
        tx.execute("insert into invoices (order_id) values ($1)", &[&order.id]).await?;
    }
    tx.commit().await?;
    Ok(accepted)
}
