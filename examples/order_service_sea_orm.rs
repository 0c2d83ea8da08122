//! The order service with SeaORM: its own transactions, and a relay on the store.
//!
//! `DATABASE_URL=postgres://… cargo run -p pillarbox-examples --bin order-service-sea-orm -- events.ndjson`

mod shop;

use pillarbox::postgres::{Inbox, Options, Outbox, PostgresStore};
use pillarbox::{AcceptRequest, Accepted, Event, EventId};
use sea_orm::{ConnectionTrait, Database, DatabaseConnection, DbBackend, Statement, TransactionTrait};
use shop::{Failure, Order};

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let (url, events) = shop::arguments()?;
    let store = PostgresStore::connect(&url, Options::default()).await?;
    store.migrate().await?;

    let database = Database::connect(&url).await?;
    let tables = "create table if not exists orders (id text primary key, total int not null);
                  create table if not exists invoices (order_id text primary key)";
    database.execute_unprepared(tables).await?;

    let (outbox, inbox) = (store.outbox("orders"), store.inbox());
    let mut accepted = Vec::new();
    for order in shop::orders() {
        let placed = place(&database, &outbox, &order).await;
        let Some(event) = shop::told(&order, placed) else { continue };
        // Billing gets each event twice, as after a lost acknowledgement.
        for _ in 0..2 {
            accepted.push(bill(&database, &inbox, event, &order).await?);
        }
    }
    shop::billed(&accepted);
    shop::deliver(store, &events).await
}

async fn place(database: &DatabaseConnection, outbox: &Outbox, order: &Order) -> Result<EventId, Failure> {
    let mut tx = database.begin().await?;
    // Your entities work in the same transaction: `order.insert(&tx).await?`.
    let insert = "insert into orders (id, total) values ($1, $2) on conflict do nothing";
    let values = [order.id.clone().into(), order.total.into()];
    tx.execute_raw(Statement::from_sql_and_values(DbBackend::Postgres, insert, values)).await?;
    let staged = outbox.stage(&mut tx, Event::json("order.placed", order)?.key(&order.id)).await?;
    // On an error the transaction is dropped, and with it everything in it.
    shop::check(order)?;
    tx.commit().await?;
    Ok(staged.event_id())
}

async fn bill(
    database: &DatabaseConnection,
    inbox: &Inbox,
    event: EventId,
    order: &Order,
) -> Result<Accepted, Failure> {
    let mut tx = database.begin().await?;
    let accepted = inbox.accept(&mut tx, AcceptRequest::new("billing", event)).await?;
    if accepted == Accepted::Fresh {
        let insert = "insert into invoices (order_id) values ($1)";
        let values = [order.id.clone().into()];
        tx.execute_raw(Statement::from_sql_and_values(DbBackend::Postgres, insert, values)).await?;
    }
    tx.commit().await?;
    Ok(accepted)
}
