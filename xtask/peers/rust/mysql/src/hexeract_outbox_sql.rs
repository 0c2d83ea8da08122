//! hexeract-outbox-sql by several workers, because one settles entry after entry, each in a transaction. Larger batches
//! gain nothing then, and leave the last ones to single workers.

use std::time::Duration;

use hexeract_core::HandlerContext;
use hexeract_outbox::{Event, Handler, OutboxError, OutboxPublisher};
use hexeract_outbox_sql::mysql::ensure_schema;
use hexeract_outbox_sql::{MySqlOutboxPublisher, MySqlOutboxWorkerBuilder};
use serde::{Deserialize, Serialize};
use sqlx8::mysql::MySqlPoolOptions;
use tokio_util::sync::CancellationToken;

use crate::{Result, clock};

const BATCH: usize = 50;
const WORKERS: u32 = 8;
const TABLE: &str = "outbox";

#[derive(Debug, Deserialize, Serialize)]
struct Noop {
    text: String,
}

impl Event for Noop {
    const EVENT_TYPE: &'static str = "noop";
}

struct Nothing;

impl Handler<Noop> for Nothing {
    type Error = OutboxError;

    async fn handle(&self, event: Noop, _: &HandlerContext) -> std::result::Result<(), OutboxError> {
        std::hint::black_box(event);
        clock::handled();
        Ok(())
    }
}

pub async fn run(url: &str, jobs: usize) -> Result<&'static str> {
    let pool = MySqlPoolOptions::new().max_connections(WORKERS + 2).connect(url).await?;
    ensure_schema(&pool, TABLE).await?;
    let publisher = MySqlOutboxPublisher::new(pool.clone(), TABLE)?;
    let mut transaction = pool.begin().await?;
    for _ in 0..jobs {
        publisher.publish_in_tx(&mut transaction, &Noop { text: "x".repeat(180) }).await?;
    }
    transaction.commit().await?;
    let stop = CancellationToken::new();
    for _ in 0..WORKERS {
        let worker = MySqlOutboxWorkerBuilder::new(pool.clone())
            .table_name(TABLE)
            .register_handler::<Noop, _>(Nothing)
            .batch_size(BATCH)
            .poll_interval(Duration::from_millis(10))
            .build()?;
        tokio::spawn(worker.run(stop.clone()));
    }
    clock::finished().await;
    stop.cancel();
    Ok("0.6.0")
}
