//! The children of a consumer: each has one event at a time, so that a crash is the fault of one event.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pillarbox_core::Received;
use pillarbox_engine::sink::HandlerError;
use tokio::time::sleep;

use super::child::Child;

/// The wait before a child is started after one that failed; it doubles with each further one.
const RESTART_BASE: Duration = Duration::from_millis(100);
const RESTART_MAX: Duration = Duration::from_secs(10);

/// Children that are started when they are needed.
pub(super) struct Children {
    command: String,
    timeout: Duration,
    idle: Mutex<Vec<Child>>,
    /// How many children failed since the last answer.
    failures: AtomicU32,
}

impl Children {
    pub(super) fn new(command: &str, timeout: Duration) -> Self {
        Self { command: command.to_owned(), timeout, idle: Mutex::default(), failures: AtomicU32::new(0) }
    }

    /// Hands an event to a child that has none. There are as many children as events are handed over at once.
    pub(super) async fn hand_over(&self, event: &Received) -> Result<(), HandlerError> {
        let idle = self.lock().pop();
        let mut child = match idle {
            Some(child) => child,
            None => self.start().await?,
        };
        match child.ask(event.to_json_line(), event.event_id, self.timeout).await {
            Ok(answer) => {
                self.failures.store(0, Ordering::Relaxed);
                self.lock().push(child);
                answer
            }
            Err(trouble) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(
                    event_id = %event.event_id, %trouble,
                    "the child is stopped, and another one is started; its event is tried again"
                );
                child.kill().await;
                Err(trouble.into_error())
            }
        }
    }

    async fn start(&self) -> Result<Child, HandlerError> {
        let failures = self.failures.load(Ordering::Relaxed);
        if failures > 0 {
            let wait = RESTART_BASE.saturating_mul(1 << (failures - 1).min(10)).min(RESTART_MAX);
            tracing::info!(failures, ?wait, "a child is started again");
            sleep(wait).await;
        }
        Child::start(&self.command).map_err(|error| {
            self.failures.fetch_add(1, Ordering::Relaxed);
            HandlerError::retry("child_start", format!("the child cannot be started: {error}"))
        })
    }

    /// Ends the children. Nothing is handed over any more.
    pub(super) async fn close(&self) {
        let children: Vec<Child> = self.lock().drain(..).collect();
        futures_util::future::join_all(children.into_iter().map(Child::end)).await;
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Child>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
