//! Two services and Kafka between them: a shop that places orders, and billing that writes an invoice for each.
//!
//! The topic must be there: `kafka-topics.sh --bootstrap-server 127.0.0.1:9092 --create --topic orders`. Then
//! `cargo run -p pillarbox-examples --bin kafka -- shop`, and in another terminal `-- billing`; then Ctrl-C. Each may be
//! away while the other works.
#![allow(clippy::print_stdout)]

mod support;

use pillarbox::kafka::{KafkaSink, KafkaSource};
use pillarbox::sqlite::Outbox;
use pillarbox::{Consumer, Event, Relay};
use support::{Arguments, Failure, Order, interrupted, open};

const TO: &str = "kafka://127.0.0.1:9092/orders";
const FROM: &str = "kafka://127.0.0.1:9092/orders?group=billing";

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let Arguments { service, database, url } = Arguments::read();
    match service.as_str() {
        "shop" => shop(&database, url.as_deref().unwrap_or(TO)).await,
        "billing" => billing(&database, url.as_deref().unwrap_or(FROM)).await,
        _ => Err("say which service: shop or billing".into()),
    }
}

/// The producer: an order and its event are one transaction, and a relay in the same process delivers the event.
async fn shop(database: &str, to: &str) -> Result<(), Failure> {
    let orders = "create table if not exists orders (id text primary key, total integer not null)";
    let store = open(database, orders).await?;
    let sink = KafkaSink::new(to)?;
    // With its presence in the database, `pillarbox status --database sqlite://shop.db` shows it and its circuit.
    let relay = Relay::builder(store.clone(), sink).route("orders").presence(store.clone()).build()?;

    // Staging wakes the relay right after the commit. A relay of its own, `pillarbox relay`, would do as well.
    let outbox = Outbox::new("orders").wake(relay.handle());
    for number in 1..=3 {
        let order = Order { id: format!("o-{number}"), total: 10 * number };
        let mut tx = store.begin().await?;
        sqlx::query("insert into orders (id, total) values (?, ?) on conflict do nothing")
            .bind(&order.id)
            .bind(order.total)
            .execute(&mut *tx)
            .await?;
        outbox.stage(&mut tx, Event::json("order.placed", &order)?.key(&order.id)).await?;
        outbox.commit(tx).await?;
        println!("placed {}", order.id);
    }

    let tally = relay.run(interrupted()).await?;
    println!("delivered {}", tally.delivered);
    Ok(())
}

/// The consumer: the mark in the inbox and the invoice are one transaction, and the message is acknowledged after its
/// commit. A message that comes twice is acknowledged without a second invoice.
async fn billing(database: &str, from: &str) -> Result<(), Failure> {
    let invoices = "create table if not exists invoices (order_id text not null, total integer not null)";
    let store = open(database, invoices).await?;
    let source = KafkaSource::new(from)?;
    let consumer = Consumer::builder(source, store.inbox()).name("billing").build()?;
    println!("waiting for orders");

    let tally = consumer
        .run(interrupted(), async |tx, event| {
            // A payload of another shape never will be an order: it is parked, and not tried again.
            let order: Order = event.json()?.payload;
            sqlx::query("insert into invoices (order_id, total) values (?, ?)")
                .bind(&order.id)
                .bind(order.total)
                .execute(&mut **tx)
                .await?;
            println!("invoice for {} over {}", order.id, order.total);
            Ok(())
        })
        .await?;
    println!("processed {}, duplicates {}", tally.processed, tally.duplicates);
    Ok(())
}
