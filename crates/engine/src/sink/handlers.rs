//! Handlers: named functions of this process as a destination.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::stream::{self, StreamExt};
use pillarbox_core::limits::STEP_DATA_BYTES_MAX;
use pillarbox_core::port::{Report, Sink, SinkCapabilities};
use pillarbox_core::{Entry, Error, ErrorKind, Failure, FailureKind, Outcome, Result, Saga, TypedEvent};
use tokio::sync::Semaphore;
use tracing::Instrument;

use crate::trace::{self, Traces};

use super::handling::{Handled, HandlerError, Handling};

/// Handlers at work at once by default.
const CONCURRENCY_DEFAULT: usize = 16;

type Running = Pin<Box<dyn Future<Output = Result<Handled, HandlerError>> + Send>>;
type Run = Box<dyn Fn(Handling) -> Running + Send + Sync>;

struct Handler {
    run: Run,
    /// Its own limit, below that of all.
    permits: Option<Semaphore>,
}

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

    /// The largest number of handlers that run at the same time. Default: 16.
    #[must_use]
    pub fn concurrency(mut self, most: usize) -> Self {
        self.permits = Semaphore::new(most.clamp(1, Semaphore::MAX_PERMITS));
        self
    }

    /// Registers a handler under a name.
    ///
    /// The handler answers `()` if its work is done, or [`Handled`] to say more: the work was done before, or
    /// call the handler later. As a step of a saga, it can also answer with data for later steps.
    ///
    /// # Errors
    /// When the name is out of bounds or taken.
    pub fn on<F, Fut, A>(mut self, name: &str, handler: F) -> Result<Self>
    where
        F: Fn(Handling) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<A, HandlerError>> + Send + 'static,
        A: Into<Handled>,
    {
        pillarbox_core::check_name("handler", name)?;
        if self.handlers.contains_key(name) {
            return Err(Error::invalid(format!(
                "a handler with the name {name:?} is already registered; give each handler its own name"
            )));
        }
        let run: Run = Box::new(move |handling| {
            let running = handler(handling);
            Box::pin(async move { running.await.map(Into::into) })
        });
        self.handlers.insert(name.to_owned(), Handler { run, permits: None });
        Ok(self)
    }

    /// Registers a handler of a Rust type under the name of that event type. An entry whose payload has
    /// another shape is rejected for good, without calling the handler.
    ///
    /// ```
    /// # use pillarbox_core::TypedEvent;
    /// # use pillarbox_engine::sink::Handlers;
    /// # use serde::{Deserialize, Serialize};
    /// #[derive(Serialize, Deserialize)]
    /// struct OrderPlaced {
    ///     order: u64,
    /// }
    ///
    /// impl TypedEvent for OrderPlaced {
    ///     const TYPE: &'static str = "order.placed";
    /// }
    ///
    /// let handlers = Handlers::new().on_event(|placed: OrderPlaced, handling| async move {
    ///     println!("order {}, attempt {}", placed.order, handling.attempt());
    ///     Ok(())
    /// })?;
    /// assert!(handlers.knows("order.placed"));
    /// # Ok::<(), pillarbox_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`on`](Self::on).
    pub fn on_event<T, F, Fut, A>(self, handler: F) -> Result<Self>
    where
        T: TypedEvent + Send,
        F: Fn(T, Handling) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<A, HandlerError>> + Send + 'static,
        A: Into<Handled>,
    {
        let handler = Arc::new(handler);
        self.on(T::TYPE, move |handling| {
            let handler = Arc::clone(&handler);
            async move {
                let payload = handling.json::<T>()?;
                handler(payload, handling).await
            }
        })
    }

    /// The largest number of runs of one handler at the same time, below the limit of all handlers. Default:
    /// no limit of its own.
    ///
    /// # Errors
    /// When no handler is registered under the name, or the limit is zero.
    pub fn limit(mut self, name: &str, most: usize) -> Result<Self> {
        if most == 0 || most > Semaphore::MAX_PERMITS {
            return Err(Error::invalid(format!(
                "the limit of the handler {name:?} is {most}; it must be 1 to {}",
                Semaphore::MAX_PERMITS
            )));
        }
        let handler = self.handlers.get_mut(name).ok_or_else(|| unknown(name))?;
        handler.permits = Some(Semaphore::new(most));
        Ok(self)
    }

    /// Whether a handler has this name.
    #[must_use]
    pub fn knows(&self, name: &str) -> bool {
        self.handlers.contains_key(name)
    }

    /// Refuses a saga if one of its steps or compensations has no handler here. Call it before the saga is
    /// staged.
    ///
    /// # Errors
    /// [`NotFound`](pillarbox_core::ErrorKind::NotFound), naming the handler.
    pub fn check(&self, saga: &Saga) -> Result<()> {
        saga.handlers().find(|name| !self.knows(name)).map_or(Ok(()), |name| Err(unknown(name)))
    }

    async fn handle(&self, entry: &Entry) -> Outcome {
        let Some(handler) = self.handlers.get(&entry.event_type) else {
            return Outcome::Rejected(Failure::new(
                FailureKind::UnknownHandler,
                "unknown_handler",
                format!(
                    "this relay has no handler with the name {:?}. Register it with `Handlers::on`, then \
                     requeue the entry",
                    entry.event_type
                ),
            ));
        };
        // Its own limit first: a run that waits for it must not take a place that other handlers could use.
        let own = async {
            match &handler.permits {
                Some(permits) => permits.acquire().await.map(Some),
                None => Ok(None),
            }
        };
        let (Ok(_own), Ok(_permit)) = (own.await, self.permits.acquire().await) else {
            return Outcome::unknown("closed", "the handlers are shut down");
        };
        let span = Traces::handle(entry);
        let outcome = Self::call(handler, entry).instrument(span.clone()).await;
        trace::delivered(&span, &outcome);
        outcome
    }

    async fn call(handler: &Handler, entry: &Entry) -> Outcome {
        let handling = Handling(entry.clone());
        let timeout = handling.timeout();
        // The closure itself may panic before it returns a future: both are contained.
        let running = AssertUnwindSafe(async { (handler.run)(handling.clone()).await }).catch_unwind();
        let handled = match timeout {
            None => running.await,
            Some(limit) => match tokio::time::timeout(limit, running).await {
                Ok(handled) => handled,
                Err(_) => {
                    return Outcome::unknown(
                        "timeout",
                        format!(
                            "the handler took longer than its timeout of {limit:?}; it may have done its \
                             work"
                        ),
                    );
                }
            },
        };
        match handled {
            Ok(Ok(handled)) => answer(handled, &handling),
            Ok(Err(error)) => error.into(),
            Err(_panic) => Outcome::Failed {
                failure: Failure::new(FailureKind::Panicked, "panic", "the handler panicked"),
                retry_after: None,
            },
        }
    }
}

/// The outcome that the pipeline gets.
fn answer(handled: Handled, handling: &Handling) -> Outcome {
    match handled {
        Handled::Done | Handled::AlreadyDone => Outcome::Confirmed,
        Handled::DoneWith(data) => {
            let bytes = data.to_string().len();
            if bytes > STEP_DATA_BYTES_MAX {
                let text =
                    format!("the handler passed on {bytes} bytes; at most {STEP_DATA_BYTES_MAX} are allowed");
                return Outcome::rejected("data_too_large", text);
            }
            if handling.is_step() { Outcome::ConfirmedWith(data) } else { Outcome::Confirmed }
        }
        Handled::RetryAfter(wait) => {
            let failure = Failure::new(FailureKind::Failed, "later", "the handler asked to be called later");
            Outcome::Failed { failure, retry_after: Some(wait) }
        }
        Handled::Reject(text) => Outcome::rejected("rejected", text),
        Handled::ParkUntil(at) => Outcome::Parked { after: handling.until(at) },
        Handled::ParkFor(after) => Outcome::Parked { after },
    }
}

fn unknown(name: &str) -> Error {
    Error::new(
        ErrorKind::NotFound,
        format!("no handler has the name {name:?}; register it with `Handlers::on`"),
    )
}

#[async_trait]
impl Sink for Handlers {
    fn capabilities(&self) -> SinkCapabilities {
        let mut capabilities = SinkCapabilities::default();
        capabilities.in_process = true;
        capabilities
    }

    async fn deliver(&self, batch: &[Entry], report: &dyn Report) {
        stream::iter(batch.iter().enumerate())
            .for_each_concurrent(None, |(index, entry)| async move {
                report.outcome(index, self.handle(entry).await);
            })
            .await;
    }
}
