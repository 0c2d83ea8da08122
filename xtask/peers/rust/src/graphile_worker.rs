//! graphile_worker with the settings of its own benchmark: 5,000 jobs in local queues, 500 at once, batched completion.

use std::time::Duration;

use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, RawJobSpec, TaskHandler, WorkerContext, WorkerOptions,
};
use serde::{Deserialize, Serialize};

use crate::{Result, clock};

const CONNECTIONS: u32 = 20;
const CONCURRENCY: usize = 500;

#[derive(Deserialize, Serialize)]
struct Noop {
    text: String,
}

impl TaskHandler for Noop {
    const IDENTIFIER: &'static str = "noop";

    async fn run(self, _context: WorkerContext) -> impl IntoTaskHandlerResult {
        std::hint::black_box(self.text);
        clock::handled();
        Ok::<(), String>(())
    }
}

pub async fn run(url: &str, jobs: usize) -> Result<&'static str> {
    let queue = LocalQueueConfig::default().with_size(1250).with_queue_count(4);
    let worker = WorkerOptions::default()
        .database_url(url)
        .max_pg_conn(CONNECTIONS)
        .concurrency(CONCURRENCY)
        .local_queue(queue)
        .complete_job_batch_delay(Duration::from_millis(5))
        .listen_os_shutdown_signals(false)
        .define_job::<Noop>()
        .init()
        .await?;
    let utils = worker.create_utils();
    for from in (0..jobs).step_by(1000) {
        let specs: Vec<RawJobSpec> = (from..jobs.min(from + 1000))
            .map(|_| RawJobSpec {
                identifier: "noop".into(),
                payload: serde_json::json!({"text": "x".repeat(180)}),
                spec: JobSpec::default(),
            })
            .collect();
        utils.add_raw_jobs(&specs).await?;
    }
    tokio::select! {
        ended = worker.run() => ended?,
        () = clock::finished() => worker.request_shutdown(),
    }
    Ok("0.14.1")
}
