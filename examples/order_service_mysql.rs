//! The order service on MariaDB or MySQL: the same code, another database.
//!
//! `DATABASE_URL=mysql://… cargo run -p pillarbox-examples --bin order-service-mysql -- events.ndjson`
#![allow(clippy::print_stdout)]

use pillarbox::mysql::{MySqlStore, Options, Outbox};
use pillarbox::sink::FileSink;
use pillarbox::{Event, Relay};
use serde::Serialize;

#[derive(Serialize)]
struct Order {
    id: String,
    total: i32,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let url =
        std::env::var("DATABASE_URL").map_err(|_| "set DATABASE_URL to a database of MariaDB or MySQL")?;
    let events = std::env::args().nth(1).unwrap_or_else(|| "events.ndjson".into());

    let store = MySqlStore::connect(&url, Options::default()).await?;
    store.migrate().await?;
    let pool = sqlx::MySqlPool::connect(&url).await?;
    sqlx::query("create table if not exists orders (id varchar(64) primary key, total int not null)")
        .execute(&pool)
        .await?;

    let outbox = Outbox::new("orders");
    for number in 1..=3 {
        let order = Order { id: format!("o-{number}"), total: 10 * number };
        place(&pool, &outbox, &order).await?;
    }
    // This order is refused after its event was staged: neither of them ever happened.
    let refused = place(&pool, &outbox, &Order { id: "o-4".into(), total: 0 }).await;
    println!("o-4: {}", refused.err().map_or("placed".into(), |error| error.to_string()));

    let relay = Relay::builder(store, FileSink::open(&events)?).route("orders").build()?;
    let tally = relay.drain().await?;
    println!("delivered {} events to {events}", tally.delivered);
    Ok(())
}

async fn place(pool: &sqlx::MySqlPool, outbox: &Outbox, order: &Order) -> Result<(), Failure> {
    let mut tx = pool.begin().await?;
    sqlx::query("insert ignore into orders (id, total) values (?, ?)")
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
