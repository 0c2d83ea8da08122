//! An order service on SQLite: the order and its event are one transaction.
//!
//! `cargo run -p pillarbox-examples --bin order-service-sqlite -- orders.db events.ndjson`
#![allow(clippy::print_stdout)]

use pillarbox::sink::FileSink;
use pillarbox::sqlite::{Options, Outbox, SqliteStore};
use pillarbox::{Event, Relay};
use serde::Serialize;

#[derive(Serialize)]
struct Order {
    id: String,
    total: u32,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let database = arguments.next().unwrap_or_else(|| "orders.db".into());
    let events = arguments.next().unwrap_or_else(|| "events.ndjson".into());

    let url = format!("sqlite://{database}");
    let store = SqliteStore::connect(&url, Options::default()).await?;
    store.migrate().await?;
    sqlx::query("create table if not exists orders (id text primary key, total integer not null)")
        .execute(store.pool())
        .await?;

    let outbox = Outbox::new("orders");
    for number in 1..=3 {
        let order = Order { id: format!("o-{number}"), total: 10 * number };
        place(&store, &outbox, &order).await?;
    }
    // This order is refused after its event was staged: neither of them ever happened.
    let refused = place(&store, &outbox, &Order { id: "o-4".into(), total: 0 }).await;
    println!("o-4: {}", refused.err().map_or("placed".into(), |error| error.to_string()));

    let relay = Relay::builder(store, FileSink::open(&events)?).route("orders").build()?;
    let tally = relay.drain().await?;
    println!("delivered {} events to {events}", tally.delivered);
    Ok(())
}

async fn place(store: &SqliteStore, outbox: &Outbox, order: &Order) -> Result<(), Failure> {
    // SQLite has one writer at a time: here the requests of a service, and the relay, wait in line.
    let mut tx = store.begin().await?;
    sqlx::query("insert into orders (id, total) values (?, ?) on conflict do nothing")
        .bind(&order.id)
        .bind(order.total)
        .execute(&mut *tx)
        .await?;
    outbox.stage(&mut tx, Event::json("order.placed", order)?.key(&order.id)).await?;
    if order.total == 0 {
        tx.rollback().await?;
        return Err("an order needs a total: rolled back, its event with it".into());
    }
    tx.commit().await?;
    Ok(())
}
