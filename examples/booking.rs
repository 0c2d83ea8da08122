//! A journey in one saga: flight, hotel, payment, mail, in this order. What fails before the payment is undone, in
//! reverse; after it the saga only goes forward.
//!
//! `DATABASE_URL=postgres://… cargo run -p pillarbox-examples --bin booking`
#![allow(clippy::print_stdout)]

use std::sync::Arc;

use pillarbox::postgres::{Options, Outbox, PostgresStore};
use pillarbox::sink::{Handled, HandlerError, Handlers, Handling};
use pillarbox::{Error, ErrorKind, Reference, Relay, Saga, SagaAdmin, SagaFilter, Schema, Step};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const TABLES: &str = "
    create table if not exists bookings (id text primary key, status text not null default 'running');
    create table if not exists reservations (
        key uuid primary key, booking text not null, what text not null, cancelled boolean not null default false);";

/// What a reservation passes on to later steps, and to its own cancellation.
#[derive(Deserialize, Serialize)]
struct Reserved {
    key: pillarbox::EventId,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let url = std::env::var("DATABASE_URL").map_err(|_| "set DATABASE_URL to a PostgreSQL database")?;
    let store = PostgresStore::connect(&url, Options::default()).await?;
    store.migrate().await?;
    let pool = PgPool::connect(&url).await?;
    sqlx::raw_sql(TABLES).execute(&pool).await?;

    // The booking's own row says how it ended, in the transaction in which it ends.
    let sagas = store.sagas().on_end(|tx, saga| {
        Box::pin(async move {
            sqlx::query("update bookings set status = $1 where id = $2")
                .bind(saga.status.as_str())
                .bind(&saga.subject.value)
                .execute(&mut **tx)
                .await
                .map_err(|error| {
                    Error::new(ErrorKind::Unavailable, "the end cannot be recorded").with_source(error)
                })?;
            Ok(())
        })
    });
    let handlers = handlers(&pool)?;

    let outbox = Outbox::new("bookings");
    for number in 1..=3 {
        let saga = booking(&format!("b-{number}"))?;
        handlers.check(&saga)?; // better known now than when the step is due
        let mut tx = pool.begin().await?;
        sqlx::query("insert into bookings (id) values ($1)")
            .bind(&saga.subject().value)
            .execute(&mut *tx)
            .await?;
        outbox.stage_saga(&mut tx, saga).await?;
        tx.commit().await?;
    }
    println!("{}", booking("b-1")?.mermaid());

    let relay = Relay::sagas(Arc::new(store.clone()), Arc::new(sagas), Arc::new(handlers)).route("bookings");
    relay.build()?.drain().await?;

    for saga in store.list_sagas(SagaFilter::default().name("booking")).await? {
        println!("{}: {}", saga.subject, saga.status);
        for record in store.audit_of(&saga.subject).await? {
            println!("  {} {} {}", record.kind, record.step.as_deref().unwrap_or("-"), record.detail);
        }
    }
    Ok(())
}

fn booking(id: &str) -> Result<Saga, Failure> {
    let saga = Saga::ordered("booking", Reference::new("booking", id))
        .step(Step::compensatable("flight", "flight.reserve", "flight.cancel"))
        .step(Step::compensatable("hotel", "hotel.reserve", "hotel.cancel"))
        .step(Step::pivot("payment", "card.charge"))
        .step(Step::retryable("mail", "mail.send"))
        .build()?;
    Ok(saga)
}

fn handlers(pool: &PgPool) -> Result<Handlers, Failure> {
    let clones = || (pool.clone(), pool.clone());
    let ((flights, no_flights), (hotels, no_hotels)) = (clones(), clones());
    let handlers = Handlers::new()
        .step("flight.reserve", move |handling| reserve(flights.clone(), handling))?
        .step("hotel.reserve", move |handling| reserve(hotels.clone(), handling))?
        .step("flight.cancel", move |handling| cancel(no_flights.clone(), handling))?
        .step("hotel.cancel", move |handling| cancel(no_hotels.clone(), handling))?
        .on("card.charge", async |handling| {
            // The third one's card is declined: the flight and the hotel are given back.
            if handling.step()?.subject.value == "b-3" {
                return Err(HandlerError::reject("declined", "the card was declined"));
            }
            Ok(())
        })?
        .on("mail.send", async |handling| {
            let flight: Option<Reserved> = handling.data("flight")?;
            println!("mail about {}, with its flight: {}", handling.step()?.subject, flight.is_some());
            Ok(())
        })?;
    Ok(handlers)
}

/// The idempotency key is the reservation's name: however often this runs, there is one.
async fn reserve(pool: PgPool, handling: Handling) -> Result<Handled, HandlerError> {
    let step = handling.step()?;
    // The second one's hotel is full: its flight is given back.
    if (&*step.subject.value, &*step.step) == ("b-2", "hotel") {
        return Err(HandlerError::reject("full", "the hotel is full"));
    }
    let key = handling.idempotency_key();
    sqlx::query("insert into reservations (key, booking, what) values ($1, $2, $3) on conflict do nothing")
        .bind(key.0)
        .bind(&step.subject.value)
        .bind(&step.step)
        .execute(&pool)
        .await?;
    Handled::done_with(&Reserved { key })
}

/// Gets what the reservation passed on. One that may have run without telling is found by nobody: nothing to cancel.
async fn cancel(pool: PgPool, handling: Handling) -> Result<Handled, HandlerError> {
    let step = handling.step()?;
    let Some(reserved) = handling.data::<Reserved>(&step.step)? else { return Ok(Handled::AlreadyDone) };
    sqlx::query("update reservations set cancelled = true where key = $1")
        .bind(reserved.key.0)
        .execute(&pool)
        .await?;
    println!("{}: {} given back", step.subject, step.step);
    Ok(Handled::Done)
}
