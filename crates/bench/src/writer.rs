//! A writer at a steady rate: one event in each of its transactions.

use std::time::{Duration, Instant};

use pillarbox_cli::database::{self, DatabaseOptions};
use pillarbox_cli::fault::Fault;
use pillarbox_cli::measure::Committed;
use pillarbox_core::{Event, EventId, RouteName};
use tokio::runtime;
use tokio::time::MissedTickBehavior;

use super::bed::{Bed, ROUTE};
use super::sql::Sql;

/// Everything that a writer needs where it runs.
struct Writer {
    url: String,
    options: DatabaseOptions,
    sql: &'static Sql,
    payload: Vec<u8>,
    keys: Vec<Option<String>>,
    every: Duration,
}

/// Stages so many events at a rate a second, each in a transaction.
///
/// The writer is a service beside the relay, so it has a thread, a runtime and a connection of its own. With those of the
/// relay it would wait until these threads have woken each other, and take its connections in turn with the relay.
pub(crate) async fn write(bed: &Bed, rate: u32, events: u32) -> Result<Vec<Committed>, Fault> {
    let writer = Writer {
        url: bed.url.clone(),
        options: DatabaseOptions { connections: Some(1), ..bed.options.clone() },
        sql: bed.sql,
        payload: bed.payload.clone(),
        keys: (0..events).map(|number| bed.key(number)).collect(),
        every: Duration::from_secs(1) / rate,
    };
    let own = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Fault::failed(format!("the writer cannot run: {error}")))?;
    tokio::task::spawn_blocking(move || own.block_on(writer.run()))
        .await
        .unwrap_or_else(|_| Err(Fault::failed("the writer panicked")))
}

impl Writer {
    async fn run(self) -> Result<Vec<Committed>, Fault> {
        let staging = database::connect(&self.url, self.options).await?.staging;
        let outbox = staging.outbox(&RouteName::new(ROUTE)?);
        let mut ticks = tokio::time::interval(self.every);
        // After a stall it goes on at its rate: what was missed would come in one burst.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut committed = Vec::with_capacity(self.keys.len());
        for key in self.keys {
            ticks.tick().await;
            let id = EventId(uuid::Uuid::now_v7());
            let mut event = Event::new("bench.event", self.payload.clone()).id(id);
            event.key = key;
            let begun = Instant::now();
            let mut tx = staging.begin().await?;
            tx.execute(self.sql.business, &["a business row of a plausible length"]).await?;
            let _ = tx.stage_all(&outbox, vec![event]).await?;
            tx.commit().await?;
            committed.push(Committed { id, took: begun.elapsed(), at: Instant::now() });
        }
        staging.close().await;
        Ok(committed)
    }
}
