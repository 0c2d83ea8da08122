//! outbox-core with its PostgreSQL store: batches of 1,000, two managers, a transport that does nothing.

use std::sync::Arc;

use async_trait::async_trait;
use outbox_core::prelude::{Event, OutboxConfig, OutboxError, OutboxManagerBuilder, Transport};
use outbox_postgres::PostgresOutbox;
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use tokio::sync::watch;

use crate::{Result, clock};

const BATCH: u32 = 1000;
const MANAGERS: usize = 2;

/// The table that its documentation asks for.
const TABLE: &str = "
    create type status as enum ('Pending', 'Processing', 'Sent');
    create table outbox_events (
        id uuid primary key default gen_random_uuid(), idempotency_token text, event_type text not null,
        payload jsonb not null, status status not null default 'Pending', created_at timestamptz not null default now(),
        locked_until timestamptz not null default '-infinity');
    create index idx_outbox_processing_queue on outbox_events (locked_until, status)
        where status in ('Pending', 'Processing');
    create unique index idx_outbox_idempotency on outbox_events (idempotency_token);";
const STAGE: &str = "
    insert into outbox_events (event_type, payload)
    select 'noop', jsonb_build_object('text', repeat('x', 180)) from generate_series(1, $1)";

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Noop {
    text: String,
}

struct Nowhere;

#[async_trait]
impl Transport<Noop> for Nowhere {
    async fn publish(&self, event: Event<Noop>) -> std::result::Result<(), OutboxError> {
        std::hint::black_box(event);
        clock::handled();
        Ok(())
    }
}

pub async fn run(url: &str, jobs: usize) -> Result<&'static str> {
    let pool = PgPool::connect(url).await?;
    sqlx::raw_sql(TABLE).execute(&pool).await?;
    sqlx::query(STAGE).bind(i64::try_from(jobs)?).execute(&pool).await?;
    let mut config = OutboxConfig::<Noop>::default();
    config.batch_size = BATCH;
    config.poll_interval_secs = 1;
    let config = Arc::new(config);
    let (stop, stopped) = watch::channel(false);
    for _ in 0..MANAGERS {
        let manager = OutboxManagerBuilder::new()
            .storage(Arc::new(PostgresOutbox::<Noop>::new(pool.clone(), Arc::clone(&config))))
            .publisher(Arc::new(Nowhere))
            .config(Arc::clone(&config))
            .shutdown_rx(stopped.clone())
            .build()?;
        tokio::spawn(async move { manager.run().await });
    }
    clock::finished().await;
    stop.send(true)?;
    Ok("0.6.0")
}
