//! What the order services of all drivers share: the orders, and a relay to a file. Nothing here is about a driver.
#![allow(clippy::print_stdout)]

use pillarbox::sink::FileSink;
use pillarbox::{Accepted, EventId, Relay, Store};
use serde::Serialize;

/// What the shop sells, and what the events are about.
#[derive(Serialize)]
pub(crate) struct Order {
    pub(crate) id: String,
    pub(crate) total: i32,
}

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Three orders, and one that is refused after its event was staged.
pub(crate) fn orders() -> impl Iterator<Item = Order> {
    (1..=4)
        .map(|number| Order { id: format!("o-{number}"), total: if number == 4 { 0 } else { 10 * number } })
}

/// Says what became of an order, and returns the id of its event if it was placed.
pub(crate) fn told(order: &Order, placed: Result<EventId, Failure>) -> Option<EventId> {
    match placed {
        Ok(id) => Some(id),
        Err(error) => {
            println!("{}: {error}", order.id);
            None
        }
    }
}

/// Refuses an order without a total. By then its event is staged: the error rolls back both.
pub(crate) fn check(order: &Order) -> Result<(), Failure> {
    if order.total == 0 {
        Err("an order needs a total: rolled back, its event with it".into())
    } else {
        Ok(())
    }
}

/// Delivers what was committed to this file.
pub(crate) async fn deliver(store: impl Store + 'static, events: &str) -> Result<(), Failure> {
    let relay = Relay::builder(store, FileSink::open(events)?).route("orders").build()?;
    println!("delivered {} events to {events}", relay.drain().await?.delivered);
    Ok(())
}

/// Says how often billing had to write an invoice.
pub(crate) fn billed(accepted: &[Accepted]) {
    let fresh = accepted.iter().filter(|accepted| **accepted == Accepted::Fresh).count();
    println!("invoices {fresh}, duplicates {}", accepted.len() - fresh);
}

/// The database's address and the file for the events, from the environment and the command line.
pub(crate) fn arguments() -> Result<(String, String), Failure> {
    let url = std::env::var("DATABASE_URL").map_err(|_| "set DATABASE_URL to the database")?;
    Ok((url, std::env::args().nth(1).unwrap_or_else(|| "events.ndjson".into())))
}
