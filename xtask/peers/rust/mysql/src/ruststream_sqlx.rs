//! ruststream-sqlx: its queue in a table, claims of 500 rows as one batch and one transaction, by several workers.

use std::num::NonZeroUsize;
use std::time::Duration;

use ruststream_sqlx::prelude::*;
use sqlx::mysql::MySqlPoolOptions;
use sqlx::{MySqlPool, QueryBuilder};

use crate::{Result, clock};

const BATCH: NonZeroUsize = nonzero!(500);
const WORKERS: NonZeroUsize = nonzero!(4);
const CONNECTIONS: u32 = 8;
/// Rows of each INSERT.
const STAGED: usize = 1000;

/// Without a lease, as its documentation has it: rows are locked until they are settled, which is by DELETE.
const TABLE: &str =
    "create table noop_jobs (id bigint auto_increment primary key, text varchar(200) not null)";

#[derive(Clone, Debug, Inbox, sqlx::FromRow)]
#[inbox(table = "noop_jobs")]
struct Noop {
    #[field(id, generated)]
    id: i64,
    text: String,
}

#[subscriber(InboxQueue::<Noop>::new("noop").poll_interval(Duration::from_millis(10)))]
async fn noop(jobs: &[Noop]) -> Vec<HandlerOutcome> {
    jobs.iter()
        .map(|job| {
            std::hint::black_box((job.id, &job.text));
            clock::handled();
            HandlerOutcome::ack()
        })
        .collect()
}

pub async fn run(url: &str, jobs: usize) -> Result<&'static str> {
    let pool = MySqlPoolOptions::new().max_connections(CONNECTIONS).connect(url).await?;
    stage(&pool, jobs).await?;
    let app = RustStream::new(AppInfo::new("bench", "0.1.0")).with_broker(SqlxBroker::new(pool), |broker| {
        broker.include(noop.batch(BATCH).workers(WORKERS));
    });
    app.run_until(clock::finished()).await?;
    Ok("0.7.1")
}

async fn stage(pool: &MySqlPool, jobs: usize) -> Result<()> {
    sqlx::raw_sql(TABLE).execute(pool).await?;
    for from in (0..jobs).step_by(STAGED) {
        let mut insert = QueryBuilder::new("insert into noop_jobs (text) ");
        insert.push_values(from..jobs.min(from + STAGED), |mut row, _| {
            row.push_bind("x".repeat(200));
        });
        insert.build().execute(pool).await?;
    }
    Ok(())
}
