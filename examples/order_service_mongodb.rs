//! The order service on MongoDB: the same code, another database.
//!
//! `DATABASE_URL=mongodb://… cargo run -p pillarbox-examples --bin order-service-mongodb -- events.ndjson`

mod shop;

use mongodb::bson::doc;
use mongodb::{Client, Database};
use pillarbox::mongodb::{Inbox, MongoStore, Options, Outbox};
use pillarbox::{AcceptRequest, Accepted, Event, EventId};
use shop::{Failure, Order};

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let (url, events) = shop::arguments()?;
    let store = MongoStore::connect(&url, Options::default()).await?;
    store.migrate().await?;

    let client = Client::with_uri_str(&url).await?;
    let database = client.default_database().ok_or("the URL names no database")?;

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

async fn place(database: &Database, outbox: &Outbox, order: &Order) -> Result<EventId, Failure> {
    let mut session = database.client().start_session().await?;
    session.start_transaction().await?;
    let row = doc! { "_id": &order.id, "total": order.total };
    database.collection("orders").insert_one(row).session(&mut session).await?;
    let staged = outbox.stage(&mut session, Event::json("order.placed", order)?.key(&order.id)).await?;
    // On an error the session is dropped, and with it everything in its transaction.
    shop::check(order)?;
    session.commit_transaction().await?;
    Ok(staged.event_id())
}

async fn bill(
    database: &Database,
    inbox: &Inbox,
    event: EventId,
    order: &Order,
) -> Result<Accepted, Failure> {
    let mut session = database.client().start_session().await?;
    session.start_transaction().await?;
    let accepted = inbox.accept(&mut session, AcceptRequest::new("billing", event)).await?;
    if accepted == Accepted::Fresh {
        let row = doc! { "_id": &order.id };
        database.collection("invoices").insert_one(row).session(&mut session).await?;
    }
    session.commit_transaction().await?;
    Ok(accepted)
}
