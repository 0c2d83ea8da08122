//! The clock of every peer here: from the first job to the last, and the one line that xtask reads.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tokio::sync::Notify;

static EXPECTED: OnceLock<usize> = OnceLock::new();
static BEGIN: OnceLock<Instant> = OnceLock::new();
static END: OnceLock<Instant> = OnceLock::new();
static DONE: AtomicUsize = AtomicUsize::new(0);
static FINISHED: Notify = Notify::const_new();

pub fn expect(jobs: usize) {
    EXPECTED.get_or_init(|| jobs);
}

/// Counts one job as handled.
pub fn handled() {
    BEGIN.get_or_init(Instant::now);
    if DONE.fetch_add(1, Ordering::Relaxed) + 1 == *EXPECTED.get().unwrap_or(&0) {
        END.get_or_init(Instant::now);
        FINISHED.notify_one();
    }
}

/// Ends when all jobs were handled.
pub async fn finished() {
    FINISHED.notified().await;
}

pub fn report(version: &str) {
    let seconds = END.get().zip(BEGIN.get()).map_or(0.0, |(end, begin)| (*end - *begin).as_secs_f64());
    let jobs = DONE.load(Ordering::Relaxed);
    println!("{}", serde_json::json!({"jobs": jobs, "seconds": seconds, "version": version}));
}
