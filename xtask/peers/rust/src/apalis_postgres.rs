//! apalis-postgres with large batches and without a second lock, as its documentation does it; two workers.

use apalis::prelude::*;
use apalis_postgres::{Config, PgPool, PostgresStorage};
use futures::StreamExt;
use futures::stream;
use serde::{Deserialize, Serialize};

use crate::{Result, clock};

const BATCH: usize = 1000;
const WORKERS: usize = 2;

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Noop {
    text: String,
}

async fn noop(job: Noop) -> std::result::Result<(), BoxDynError> {
    std::hint::black_box(job);
    clock::handled();
    Ok(())
}

pub async fn run(url: &str, jobs: usize) -> Result<&'static str> {
    let pool = PgPool::connect(url).await?;
    PostgresStorage::setup(&pool).await?;
    let config = Config::default().queue("noop").batch_size(BATCH).lock_tasks(false);
    let mut storage = PostgresStorage::new(&pool).with_config(config.clone());
    let mut tasks = stream::repeat_with(|| TaskBuilder::new(Noop { text: "x".repeat(180) }).build()).take(jobs);
    storage.push_all(&mut tasks).await?;
    for number in 0..WORKERS {
        let storage = PostgresStorage::new(&pool).with_config(config.clone());
        let worker = WorkerBuilder::new(format!("bench-{number}"))
            .backend(storage)
            .parallelize(tokio::spawn)
            .build(noop);
        tokio::spawn(async move { worker.run().await });
    }
    clock::finished().await;
    Ok("1.0.0")
}
