//! A journey in one saga: flight, hotel, payment, mail, in this order. What fails before the payment is undone, in
//! reverse; after it the saga only goes forward.
//!
//! `DATABASE_URL=postgres://… cargo run -p pillarbox-examples --bin booking -- [BOOKINGS]`. Kill it at any moment and start
//! it again: every booking ends once, with everything reserved and paid, or with nothing.
#![allow(clippy::print_stdout)]

use std::time::Duration;

use pillarbox::operate::SagaFilter;
use pillarbox::postgres::{Options, Outbox, PostgresStore};
use pillarbox::sink::{Handled, HandlerError, Handlers, Handling};
use pillarbox::{
    Backoff, Error, ErrorKind, EventId, Jitter, Reference, Relay, RelayOptions, Saga, SagaAdmin, SagaStatus,
    Step,
};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const TABLES: &str = "
    create table if not exists bookings (id text primary key, status text not null default 'running');
    create table if not exists reservations (
        key uuid primary key, booking text not null, what text not null, cancelled boolean not null default false);";

/// What a reservation passes on to later steps.
#[derive(Deserialize, Serialize)]
struct Reserved {
    key: EventId,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let bookings: u32 = std::env::args().nth(1).map_or(Ok(3), |number| number.parse())?;
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

    for number in 1..=bookings {
        let saga = booking(&format!("b-{number}"))?;
        handlers.check(&saga)?; // better known now than when the step is due
        place(&pool, saga).await?;
    }
    println!("{}", booking("b-1")?.mermaid());

    let relay = Relay::sagas(store.clone(), sagas, handlers);
    let relay = relay.route("bookings").options(policy()?).build()?;
    relay.run(nothing_moves(&store)).await?;

    for saga in store.list_sagas(SagaFilter::default().name("booking").limit(10_000)).await? {
        println!("{}: {}", saga.subject, saga.status);
        for record in store.audit_of(&saga.subject).await? {
            println!("  {} {} {}", record.kind, record.step.as_deref().unwrap_or("-"), record.detail);
        }
    }
    Ok(())
}

/// The booking and its saga are one transaction. Placing it again changes nothing.
async fn place(pool: &PgPool, saga: Saga) -> Result<(), Failure> {
    let outbox = Outbox::new("bookings");
    let mut tx = pool.begin().await?;
    let placed = sqlx::query("insert into bookings (id) values ($1) on conflict do nothing")
        .bind(&saga.subject().value)
        .execute(&mut *tx)
        .await?;
    if placed.rows_affected() == 1 {
        outbox.stage_saga(&mut tx, saga).await?;
    }
    outbox.commit(tx).await?;
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

/// As handlers have it, but for everything being over in seconds: leases, waits, the search for what a crash left.
fn policy() -> Result<RelayOptions, Failure> {
    let mut policy = RelayOptions::handlers();
    policy.lease = Duration::from_secs(2);
    policy.reap_interval = Duration::from_millis(500);
    policy.backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(500), Jitter::None)?;
    Ok(policy)
}

/// Resolves when every saga has ended or waits for an operator.
async fn nothing_moves(store: &PostgresStore) {
    let none = async |status| {
        let sagas = store.list_sagas(SagaFilter::default().status(status).limit(1)).await;
        sagas.is_ok_and(|sagas| sagas.is_empty())
    };
    // In this order: what began to be undone in between is found by the second question.
    while !(none(SagaStatus::Running).await && none(SagaStatus::Compensating).await) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// What goes wrong with a booking: of three, one has a full hotel, and one a card that is declined.
fn bad_luck(booking: &str) -> Option<&'static str> {
    let number: u32 = booking.strip_prefix("b-")?.parse().ok()?;
    [Some("payment"), None, Some("hotel")][number as usize % 3]
}

fn handlers(pool: &PgPool) -> Result<Handlers, Failure> {
    let clones = || (pool.clone(), pool.clone());
    let ((flights, no_flights), (hotels, no_hotels)) = (clones(), clones());
    let handlers = Handlers::new()
        .on("flight.reserve", move |handling| reserve(flights.clone(), handling))?
        .on("hotel.reserve", move |handling| reserve(hotels.clone(), handling))?
        .on("flight.cancel", move |handling| cancel(no_flights.clone(), handling))?
        .on("hotel.cancel", move |handling| cancel(no_hotels.clone(), handling))?
        .on("card.charge", async |handling| {
            let booking = handling.step()?.subject.value;
            if bad_luck(&booking) == Some("payment") {
                return Err(HandlerError::reject("declined", "the card was declined"));
            }
            println!("{booking} is paid (attempt {})", handling.attempt());
            Ok(())
        })?
        .on("mail.send", async |handling| {
            let flight: Option<Reserved> = handling.data("flight")?;
            let booking = handling.step()?.subject.value;
            println!("mail about {booking}, with its flight: {}", flight.is_some());
            Ok(())
        })?;
    Ok(handlers)
}

/// The idempotency key is the reservation's name: however often this runs, there is one.
async fn reserve(pool: PgPool, handling: Handling) -> Result<Handled, HandlerError> {
    let step = handling.step()?;
    if bad_luck(&step.subject.value) == Some(&step.step) {
        return Err(HandlerError::reject("full", "there is no room"));
    }
    let key = handling.idempotency_key();
    sqlx::query("insert into reservations (key, booking, what) values ($1, $2, $3) on conflict do nothing")
        .bind(key.0)
        .bind(&step.subject.value)
        .bind(&step.step)
        .execute(&pool)
        .await?;
    println!("{} has a {} (attempt {})", step.subject.value, step.step, handling.attempt());
    Handled::done_with(&Reserved { key })
}

/// Also called for a reservation of which nobody knows whether it was made: there may be nothing to cancel.
async fn cancel(pool: PgPool, handling: Handling) -> Result<Handled, HandlerError> {
    let step = handling.step()?;
    let cancelled = sqlx::query("update reservations set cancelled = true where booking = $1 and what = $2")
        .bind(&step.subject.value)
        .bind(&step.step)
        .execute(&pool)
        .await?;
    println!("{} has no {} any more (attempt {})", step.subject.value, step.step, handling.attempt());
    Ok(if cancelled.rows_affected() == 0 { Handled::AlreadyDone } else { Handled::Done })
}
