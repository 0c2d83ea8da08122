//! The order service on MongoDB: the same code, another database.
//!
//! `DATABASE_URL=mongodb://… cargo run -p pillarbox-examples --bin order-service-mongodb -- events.ndjson`
#![allow(clippy::print_stdout)]

use mongodb::Client;
use mongodb::bson::doc;
use pillarbox::mongodb::{MongoStore, Options, Outbox};
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
    let url = std::env::var("DATABASE_URL").map_err(|_| "set DATABASE_URL to a database of MongoDB")?;
    let events = std::env::args().nth(1).unwrap_or_else(|| "events.ndjson".into());

    let store = MongoStore::connect(&url, Options::default()).await?;
    store.migrate().await?;
    let client = Client::with_uri_str(&url).await?;

    let outbox = Outbox::new("orders");
    for number in 1..=3 {
        let order = Order { id: format!("o-{number}"), total: 10 * number };
        place(&client, &outbox, &order).await?;
    }
    // This order is refused after its event was staged: neither of them ever happened.
    let refused = place(&client, &outbox, &Order { id: "o-4".into(), total: 0 }).await;
    println!("o-4: {}", refused.err().map_or("placed".into(), |error| error.to_string()));

    let relay = Relay::builder(store, FileSink::open(&events)?).route("orders").build()?;
    let tally = relay.drain().await?;
    println!("delivered {} events to {events}", tally.delivered);
    Ok(())
}

async fn place(client: &Client, outbox: &Outbox, order: &Order) -> Result<(), Failure> {
    let database = client.default_database().ok_or("the URL names no database")?;
    let mut session = client.start_session().await?;
    session.start_transaction().await?;
    let row = doc! { "_id": &order.id, "total": order.total };
    database.collection("orders").insert_one(row).session(&mut session).await?;
    outbox.stage(&mut session, Event::json("order.placed", order)?.key(&order.id)).await?;
    if order.total == 0 {
        session.abort_transaction().await?;
        return Err("an order needs a total: rolled back, its event with it".into());
    }
    session.commit_transaction().await?;
    Ok(())
}
