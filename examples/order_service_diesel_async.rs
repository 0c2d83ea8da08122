//! The order service with diesel-async: the closure of `transaction` gets the connection, and an error rolls back.
//!
//! `DATABASE_URL=postgres://… cargo run -p pillarbox-examples --bin order-service-diesel-async -- events.ndjson`

mod shop;

use diesel::sql_query;
use diesel::sql_types::{Integer, Text};
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};
use pillarbox::postgres::{Inbox, Options, Outbox, PostgresStore};
use pillarbox::{AcceptRequest, Accepted, Event, EventId};
use shop::{Failure, Order};

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let (url, events) = shop::arguments()?;
    let store = PostgresStore::connect(&url, Options::default()).await?;
    store.migrate().await?;

    let mut connection = AsyncPgConnection::establish(&url).await?;
    let tables = "create table if not exists orders (id text primary key, total int not null);
                  create table if not exists invoices (order_id text primary key)";
    connection.batch_execute(tables).await?;

    let (outbox, inbox) = (store.outbox("orders"), store.inbox());
    let mut accepted = Vec::new();
    for order in shop::orders() {
        let placed = place(&mut connection, &outbox, &order).await;
        let Some(event) = shop::told(&order, placed) else { continue };
        // Billing gets each event twice, as after a lost acknowledgement.
        for _ in 0..2 {
            accepted.push(bill(&mut connection, &inbox, event, &order).await?);
        }
    }
    shop::billed(&accepted);
    shop::deliver(store, &events).await
}

async fn place(
    connection: &mut AsyncPgConnection,
    outbox: &Outbox,
    order: &Order,
) -> Result<EventId, Failure> {
    connection
        .transaction(async |connection| {
            sql_query("insert into orders (id, total) values ($1, $2) on conflict do nothing")
                .bind::<Text, _>(&order.id)
                .bind::<Integer, _>(order.total)
                .execute(connection)
                .await?;
            let event = Event::json("order.placed", order)?.key(&order.id);
            let staged = outbox.stage(connection, event).await?;
            shop::check(order)?;
            Ok(staged.event_id())
        })
        .await
}

async fn bill(
    connection: &mut AsyncPgConnection,
    inbox: &Inbox,
    event: EventId,
    order: &Order,
) -> Result<Accepted, Failure> {
    connection
        .transaction(async |connection| {
            let accepted = inbox.accept(connection, AcceptRequest::new("billing", event)).await?;
            if accepted == Accepted::Fresh {
                let insert = sql_query("insert into invoices (order_id) values ($1)");
                insert.bind::<Text, _>(&order.id).execute(connection).await?;
            }
            Ok(accepted)
        })
        .await
}
