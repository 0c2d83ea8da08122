//! Two services and signed webhooks between them: a shop that places orders, and billing that writes an invoice for each.
//!
//! `export WEBHOOK_SECRET="whsec_$(openssl rand -base64 32)"`, then
//! `cargo run -p pillarbox-examples --bin webhook -- billing`, and in another terminal, with the same secret, `-- shop`;
//! then Ctrl-C.
#![allow(clippy::print_stdout)]

mod support;

use std::sync::Arc;

use axum::extract::{FromRef, State};
use axum::http::StatusCode;
use axum::{Router, routing::post};
use pillarbox::http::{HttpSink, Options, Receiver, Secret, VerifiedEvent, Verifier};
use pillarbox::sqlite::{Inbox, Outbox, SqliteStore};
use pillarbox::{AcceptRequest, Accepted, Event, Relay, RelayOptions, Transactions};
use support::{Arguments, Failure, Order, interrupted, open};

const TO: &str = "http://127.0.0.1:8080/hooks";
const LISTEN: &str = "127.0.0.1:8080";

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let secret: Secret = std::env::var("WEBHOOK_SECRET")
        .map_err(|_| "set WEBHOOK_SECRET to whsec_… of 24 to 64 bytes")?
        .parse()?;
    let Arguments { service, database, url } = Arguments::read();
    match service.as_str() {
        "shop" => shop(&database, url.as_deref().unwrap_or(TO), secret).await,
        "billing" => billing(&database, url.as_deref().unwrap_or(LISTEN), secret).await,
        _ => Err("say which service: shop or billing".into()),
    }
}

/// The sender: an order and its event are one transaction, and a relay in the same process posts the event.
async fn shop(database: &str, to: &str, secret: Secret) -> Result<(), Failure> {
    let orders = "create table if not exists orders (id text primary key, total integer not null)";
    let store = open(database, orders).await?;
    // Only because both run on this machine: a webhook never reaches a private address unless the route allows it.
    let sink = HttpSink::with_options(Options::of_sink(to)?.secret(secret).allow_private(true))?;
    let mut policy = RelayOptions::broker();
    policy.publish_timeout = None; // every request ends by itself
    let relay = Relay::builder(store.clone(), sink).route("orders").options(policy).build()?;

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

/// What the receiver's handler needs.
#[derive(Clone)]
struct Billing {
    receiver: Receiver,
    inbox: Arc<Inbox>,
}

impl FromRef<Billing> for Receiver {
    fn from_ref(billing: &Billing) -> Self {
        billing.receiver.clone()
    }
}

/// The receiver: what is not signed with our secret, too old or too large never reaches the handler.
async fn billing(database: &str, listen: &str, secret: Secret) -> Result<(), Failure> {
    let invoices = "create table if not exists invoices (order_id text not null, total integer not null)";
    let store: SqliteStore = open(database, invoices).await?;
    let billing =
        Billing { receiver: Receiver::new(Verifier::new([secret])?), inbox: Arc::new(store.inbox()) };
    let service = Router::new().route("/hooks", post(take)).with_state(billing);
    let listener = tokio::net::TcpListener::bind(listen).await?;
    println!("listening on {}", listener.local_addr()?);
    axum::serve(listener, service).with_graceful_shutdown(interrupted()).await?;
    Ok(())
}

/// 2xx only after the commit: a 5xx is sent again, and the inbox absorbs what comes twice.
async fn take(State(billing): State<Billing>, VerifiedEvent(event): VerifiedEvent) -> StatusCode {
    let request = AcceptRequest::new("billing", event.event_id);
    // A payload of another shape never will be an order: a 4xx is not sent again.
    let Ok(order) = event.json::<Order>() else { return StatusCode::UNPROCESSABLE_ENTITY };
    match write_invoice(&billing.inbox, request, &order.payload).await {
        Ok(()) => StatusCode::NO_CONTENT,
        Err(error) => {
            println!("not taken: {error}");
            StatusCode::INTERNAL_SERVER_ERROR
        }
    }
}

/// The mark in the inbox and the invoice are one transaction.
async fn write_invoice(inbox: &Inbox, request: AcceptRequest, order: &Order) -> Result<(), Failure> {
    let mut tx = inbox.begin().await?;
    if inbox.accept(&mut tx, request).await? == Accepted::Fresh {
        sqlx::query("insert into invoices (order_id, total) values (?, ?)")
            .bind(&order.id)
            .bind(order.total)
            .execute(&mut *tx)
            .await?;
        println!("invoice for {} over {}", order.id, order.total);
    }
    inbox.commit(tx).await?;
    Ok(())
}
