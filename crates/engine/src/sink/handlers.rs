//! Handlers: named functions of this process as a destination.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::stream::{self, StreamExt};
use pillarbox_core::port::{Report, Sink, SinkCapabilities};
use pillarbox_core::{Entry, Error, EventId, Failure, FailureKind, Outcome, Result};
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

/// Handlers at work at once by default.
const CONCURRENCY_DEFAULT: usize = 16;

type Running = Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send>>;
type Handler = Box<dyn Fn(Handling) -> Running + Send + Sync>;

/// A registry of named handlers. An entry goes to the handler that has the name of its type.
///
/// ```
/// use pillarbox_engine::sink::{HandlerError, Handlers};
///
/// let handlers = Handlers::new().on("mail.send", async |handling| {
///     let to: String = handling.json()?;
///     if to.is_empty() {
///         return Err(HandlerError::reject("no_recipient", "the address is empty"));
///     }
///     Ok(())
/// })?;
/// # Ok::<(), pillarbox_core::Error>(())
/// ```
pub struct Handlers {
    handlers: BTreeMap<String, Handler>,
    // One limit over all batches: a relay has several of them in flight.
    permits: Semaphore,
}

impl Default for Handlers {
    fn default() -> Self {
        Self { handlers: BTreeMap::new(), permits: Semaphore::new(CONCURRENCY_DEFAULT) }
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handlers").field("names", &self.handlers.keys()).finish_non_exhaustive()
    }
}

impl Handlers {
    /// An empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Most handlers at work at once. Default: 16.
    #[must_use]
    pub fn concurrency(mut self, most: usize) -> Self {
        self.permits = Semaphore::new(most.clamp(1, Semaphore::MAX_PERMITS));
        self
    }

    /// Registers a handler under a name.
    ///
    /// # Errors
    /// When the name is out of bounds or taken.
    pub fn on<F, Fut>(mut self, name: &str, handler: F) -> Result<Self>
    where
        F: Fn(Handling) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        pillarbox_core::check_name("handler", name)?;
        if self.handlers.contains_key(name) {
            return Err(Error::invalid(format!("a handler named {name:?} is registered already")));
        }
        self.handlers.insert(name.to_owned(), Box::new(move |handling| Box::pin(handler(handling))));
        Ok(self)
    }

    async fn handle(&self, entry: &Entry) -> Outcome {
        let Some(handler) = self.handlers.get(&entry.event_type) else {
            return Outcome::Rejected(Failure::new(
                FailureKind::UnknownHandler,
                "unknown_handler",
                format!("no handler is registered under the name {:?}", entry.event_type),
            ));
        };
        let Ok(_permit) = self.permits.acquire().await else {
            return Outcome::unknown("closed", "the handlers are closed");
        };
        // The closure itself may panic before it returns a future: both are contained.
        let running = AssertUnwindSafe(async { handler(Handling(entry.clone())).await });
        match running.catch_unwind().await {
            Ok(Ok(())) => Outcome::Confirmed,
            Ok(Err(error)) => error.into(),
            Err(_panic) => Outcome::Failed {
                failure: Failure::new(FailureKind::Panicked, "panic", "the handler panicked"),
                retry_after: None,
            },
        }
    }
}

#[async_trait]
impl Sink for Handlers {
    fn capabilities(&self) -> SinkCapabilities {
        SinkCapabilities::default()
    }

    async fn deliver(&self, batch: &[Entry], report: &dyn Report) {
        stream::iter(batch.iter().enumerate())
            .for_each_concurrent(None, |(index, entry)| async move {
                report.outcome(index, self.handle(entry).await);
            })
            .await;
    }
}

/// What a handler is given: the entry, with its idempotency key and the number of this attempt.
#[derive(Clone, Debug)]
pub struct Handling(Entry);

impl Handling {
    /// The idempotency key: the same for every attempt of one event.
    #[must_use]
    pub fn event_id(&self) -> EventId {
        self.0.event_id
    }

    /// The number of this attempt, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.0.attempts
    }

    /// The whole entry.
    #[must_use]
    pub fn entry(&self) -> &Entry {
        &self.0
    }

    /// The payload as a JSON value of this type.
    ///
    /// # Errors
    /// A payload of another shape is rejected for good: it will not change by itself.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, HandlerError> {
        serde_json::from_slice(&self.0.payload).map_err(|error| {
            // serde_json's own text may quote the payload: only where it went wrong is told.
            let at = format!("not the expected JSON at line {} column {}", error.line(), error.column());
            HandlerError::reject("payload", at)
        })
    }
}

/// Why a handler did not do its work.
///
/// Any error becomes one with `?`: the entry is tried again, and only the error's type name is stored, since
/// its message may carry data.
#[derive(Clone, Debug)]
pub struct HandlerError(Outcome);

impl HandlerError {
    /// Never try this entry again.
    pub fn reject(code: impl Into<String>, text: impl AsRef<str>) -> Self {
        Self(Outcome::rejected(code, text))
    }

    /// Try again after the route's backoff.
    pub fn retry(code: impl Into<String>, text: impl AsRef<str>) -> Self {
        Self(Outcome::failed(code, text))
    }

    /// Try again after this long.
    pub fn retry_after(wait: Duration, code: impl Into<String>, text: impl AsRef<str>) -> Self {
        let failure = Failure::new(FailureKind::Failed, code, text);
        Self(Outcome::Failed { failure, retry_after: Some(wait) })
    }

    /// What the handler needs is down: no attempt is spent, and the whole route waits.
    pub fn down(code: impl Into<String>, text: impl AsRef<str>) -> Self {
        Self(Outcome::down(code, text))
    }
}

impl From<HandlerError> for Outcome {
    fn from(error: HandlerError) -> Self {
        error.0
    }
}

impl<E: std::error::Error> From<E> for HandlerError {
    fn from(_: E) -> Self {
        let name = std::any::type_name::<E>();
        Self::retry(name.rsplit("::").next().unwrap_or(name), "")
    }
}
