//! apalis-mysql with buffers of 500 by several workers, each of which runs its jobs beside one another.

use apalis::prelude::*;
use apalis_mysql::{Config, MySqlStorage, PoolOptions};
use futures::future::join_all;
use futures::{StreamExt, stream};
use serde::{Deserialize, Serialize};

use crate::{Result, clock};

const BATCH: usize = 500;
const WORKERS: u32 = 2;
const CONNECTIONS: u32 = 32;

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
    let pool = PoolOptions::new().max_connections(CONNECTIONS).connect(url).await?;
    MySqlStorage::setup(&pool).await?;
    let config = Config::new("noop").set_buffer_size(BATCH);
    let mut storage = MySqlStorage::new_with_config(&pool, &config);
    let mut noops = stream::repeat_with(|| Noop { text: "x".repeat(180) }).take(jobs);
    storage.push_stream(&mut noops).await?;
    let workers = (0..WORKERS).map(|number| {
        WorkerBuilder::new(format!("bench-{number}"))
            .backend(MySqlStorage::new_with_config(&pool, &config))
            .parallelize(tokio::spawn)
            .build(noop)
            .run()
    });
    tokio::select! {
        _ = join_all(workers) => {}
        () = clock::finished() => {}
    }
    Ok("1.0.0-rc.8")
}
