//! The erasure of people across a database, an object store and a payment provider, from the request to its end, with
//! the audit trail of each. The other two are small services on this machine that fail now and then.
//!
//! `cargo run -p pillarbox-examples --bin erasure -- FOLDER [PEOPLE]`. Kill it at any moment and start it again: every
//! person is erased once, or is visibly blocked. Everything is in the folder, the services' own data too; with
//! `DATABASE_URL=postgres://…` the application's data is there instead.
#![allow(clippy::print_stdout)]

mod application;
mod chance;
mod client;
mod database;
mod on_postgres;
mod on_sqlite;
mod services;

use std::path::Path;
use std::time::Duration;

use application::Application;
use chance::Chance;
use database::Database;
use on_postgres::OnPostgres;
use on_sqlite::OnSqlite;
use pillarbox::operate::SagaFilter;
use pillarbox::{Admin, Backoff, Jitter, Reference, Relay, RelayOptions, SagaAdmin};
use services::{ObjectStore, PaymentProvider};

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().unwrap_or_else(|| "erasure".into());
    let people: u32 = arguments.next().map_or(Ok(5), |number| number.parse())?;
    let seed: u64 = arguments.next().map_or(Ok(1), |number| number.parse())?;
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder)?;
    match std::env::var("DATABASE_URL") {
        Ok(url) => run(OnPostgres::open(&url).await?, folder, people, seed).await,
        Err(_) => {
            let url = format!("sqlite://{}", folder.join("application.db").display());
            run(OnSqlite::open(&url).await?, folder, people, seed).await
        }
    }
}

async fn run(database: impl Database, folder: &Path, people: u32, seed: u64) -> Result<(), Failure> {
    let objects = ObjectStore::open(folder, Chance::new(seed)).await?;
    let payments = PaymentProvider::open(folder, Chance::new(seed ^ 0xa5a5)).await?;

    let (store, sagas) = (database.store(), database.sagas());
    let application = Application { database, objects: objects.address, payments: payments.address };
    let relay = Relay::sagas(store.clone(), sagas, application.handlers()?)
        .route("erasures")
        .options(policy()?)
        .presence(store.clone())
        .build()?;

    for number in 1..=people {
        if application.request(&format!("p-{number}"), relay.handle()).await? {
            println!("erasure of p-{number} requested");
        }
    }
    // One future for everything, and no task behind anybody's back: a kill ends the services in mid-sentence too.
    tokio::select! {
        tally = relay.run(nothing_moves(&*store)) => { let _ = tally?; }
        served = objects.serve() => served?,
        served = payments.serve() => served?,
    }
    report(&*store).await
}

/// As handlers have it, but for everything being over in seconds: leases, waits, the search for what a crash left.
fn policy() -> Result<RelayOptions, Failure> {
    let mut policy = RelayOptions::handlers();
    policy.lease = Duration::from_secs(2);
    policy.reap_interval = Duration::from_millis(500);
    policy.backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(500), Jitter::None)?;
    Ok(policy)
}

/// Resolves when no step is left to run. A blocked saga is no sign of it: its other steps still go on. Nor is a question
/// that failed.
async fn nothing_moves(store: &impl Admin) {
    let over = async || {
        let routes = store.counts(None).await;
        routes.is_ok_and(|routes| routes.iter().all(|route| route.undrained() == 0))
    };
    while !over().await {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// What became of each person, and the records that prove it.
async fn report(store: &impl SagaAdmin) -> Result<(), Failure> {
    for saga in store.list_sagas(SagaFilter::default().limit(10_000)).await? {
        println!("{}: {}", saga.subject, saga.status);
        let subject = Reference::new(&saga.subject.kind, &saga.subject.value);
        for record in store.audit_of(&subject).await? {
            let step = record.step.as_deref().unwrap_or("-");
            println!("  {} {} {} {step} {}", record.seq, record.at, record.kind, record.detail);
        }
        if saga.status.is_stuck() {
            println!("  to try again: pillarbox saga resume {}", saga.id);
        }
    }
    Ok(())
}
