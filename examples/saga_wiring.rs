//! Three ways to run sagas: a worker process, a cron job, and inside an axum service. The sagas and handlers are the
//! same; only who calls the relay differs.
//!
//! `cargo run -p pillarbox-examples --bin saga-wiring -- serve shop.db 127.0.0.1:8080`, then
//! `curl -X POST http://127.0.0.1:8080/people/p-1/erasure`, then Ctrl-C; or `request`, `worker` and `cron`.
#![allow(clippy::print_stdout)]

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Router, routing::post};
use pillarbox::sink::{Handlers, Handling};
use pillarbox::sqlite::{Options, Outbox, SqliteStore};
use pillarbox::{Reference, Relay, Saga, Step};

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let service = arguments.next().unwrap_or_default();
    let database = arguments.next().unwrap_or_else(|| "erasures.db".into());
    let more = arguments.next();
    let store = SqliteStore::connect(&format!("sqlite://{database}"), Options::default()).await?;
    store.migrate().await?;
    match service.as_str() {
        "request" => request(&store, &Outbox::new("erasures"), more.as_deref().unwrap_or("p-1")).await,
        "worker" => worker(store).await,
        "cron" => cron(store).await,
        "serve" => serve(store, more.as_deref().unwrap_or("127.0.0.1:8080")).await,
        _ => Err("say which: request, worker, cron or serve".into()),
    }
}

/// A process of its own, until Ctrl-C: any number of them share the route.
async fn worker(store: SqliteStore) -> Result<(), Failure> {
    let tally = relay(&store)?.run(interrupted()).await?;
    println!("delivered {}", tally.delivered);
    Ok(())
}

/// From cron: does what is due and ends. What was parked or waits for its next attempt is for a later run; runs that
/// overlap do no harm.
async fn cron(store: SqliteStore) -> Result<(), Failure> {
    let tally = relay(&store)?.drain().await?;
    println!("delivered {}", tally.delivered);
    Ok(())
}

/// In a service: the relay is one more future beside the server, both end at Ctrl-C, and a request wakes the relay.
async fn serve(store: SqliteStore, listen: &str) -> Result<(), Failure> {
    let relay = relay(&store)?;
    let outbox = Outbox::new("erasures").wake(relay.handle());
    let service = Router::new().route("/people/{id}/erasure", post(erase)).with_state((store, outbox));
    let listener = tokio::net::TcpListener::bind(listen).await?;
    println!("listening on {}", listener.local_addr()?);
    let server = async { axum::serve(listener, service).with_graceful_shutdown(interrupted()).await };
    let (served, tally) = tokio::join!(server, relay.run(interrupted()));
    served?;
    println!("delivered {}", tally?.delivered);
    Ok(())
}

/// 202: the request is on record, and the erasure will end, or be seen not to.
async fn erase(
    State((store, outbox)): State<(SqliteStore, Outbox)>,
    Path(person): Path<String>,
) -> StatusCode {
    match request(&store, &outbox, &person).await {
        Ok(()) => StatusCode::ACCEPTED,
        Err(error) => {
            println!("not taken: {error}");
            StatusCode::INTERNAL_SERVER_ERROR
        }
    }
}

async fn request(store: &SqliteStore, outbox: &Outbox, person: &str) -> Result<(), Failure> {
    let saga = Saga::group("erase_person", Reference::new("person", person))
        .step(Step::new("crm", "crm.erase"))
        .step(Step::new("files", "files.erase"))
        .build()?;
    let mut tx = store.begin().await?;
    // Here the application writes what it knows of the request.
    outbox.stage_saga(&mut tx, saga).await?;
    outbox.commit(tx).await?;
    Ok(())
}

fn relay(store: &SqliteStore) -> Result<Relay, Failure> {
    let done = |handling: Handling| async move {
        let step = handling.step()?;
        println!("{} erased from {}", step.reference.value, step.step);
        Ok(())
    };
    let handlers = Handlers::new().on("crm.erase", done)?.on("files.erase", done)?;
    let relay = Relay::sagas(store.clone(), store.sagas(), handlers);
    Ok(relay.route("erasures").presence(store.clone()).build()?)
}

async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
