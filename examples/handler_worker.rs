//! Background work in the same process: the relay delivers to handlers instead of a broker.
//!
//! `cargo run -p pillarbox-examples --bin handler-worker -- work.db`, then Ctrl-C.
#![allow(clippy::print_stdout)]

use std::time::Duration;

use pillarbox::sink::{HandlerError, Handlers};
use pillarbox::sqlite::{Options, Outbox, SqliteStore};
use pillarbox::{Event, Relay, RelayOptions};
use serde::Deserialize;

#[derive(Deserialize)]
struct Mail {
    to: String,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let database = std::env::args().nth(1).unwrap_or_else(|| "work.db".into());
    let url = format!("sqlite://{database}");
    let store = SqliteStore::connect(&url, Options::default()).await?;
    store.migrate().await?;

    let handlers = Handlers::new().concurrency(4).on("mail.send", async |handling| {
        // The event id is the idempotency key: hand it to the mail provider, so that a retry sends nothing twice.
        let mail: Mail = handling.json()?;
        if !mail.to.contains('@') {
            return Err(HandlerError::reject("address", "this is not a mail address"));
        }
        if handling.attempt() == 1 && mail.to.starts_with("slow") {
            return Err(HandlerError::retry_after(Duration::from_millis(50), "busy", "the provider is busy"));
        }
        println!("sent to {} (attempt {}, key {})", mail.to, handling.attempt(), handling.event_id());
        Ok(())
    })?;

    let relay = Relay::builder(store, handlers)
        .route("mail")
        .options(RelayOptions::handlers())
        .on_death(|death| println!("gave up on {}: {}", death.event_type, death.failure))
        .build()?;

    // Staging wakes the relay of this process right after the commit.
    let outbox = Outbox::new("mail").wake(relay.handle());
    let pool = pillarbox::sqlite::app_pool(&url).await?;
    let mut tx = pool.begin().await?;
    for to in ["ann@example.org", "slow@example.org", "nowhere"] {
        outbox.stage(&mut tx, Event::json("mail.send", &serde_json::json!({ "to": to }))?).await?;
    }
    outbox.stage(&mut tx, Event::json("fax.send", "nobody handles this")?).await?;
    outbox.commit(tx).await?;

    let tally = relay.run(interrupted()).await?;
    println!("delivered {}, retried {}, dead {}", tally.delivered, tally.retried, tally.dead);
    Ok(())
}

async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
