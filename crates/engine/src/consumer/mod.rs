//! The consumer: receives, marks and handles each event in one transaction, and only then acknowledges it.

mod flow;
mod one;
mod options;
mod stream;

use std::future::Future;
use std::sync::Arc;

use pillarbox_core::port::{Source, Transactions};
use pillarbox_core::{Error, HybridClock, Received, Result};

use crate::sink::HandlerError;

pub use options::{ConsumerOptions, ConsumerTally};

use flow::Flow;

/// Applies the events of a source once each, through an inbox.
///
/// The mark in the inbox and the handler's own write are one transaction, so a duplicate is acknowledged without
/// running the handler, and a failed handler leaves no mark. The message is acknowledged after the commit: a crash
/// in between brings it again, as a duplicate.
pub struct Consumer<S: Transactions> {
    source: Arc<dyn Source>,
    inbox: Arc<S>,
    name: String,
    options: ConsumerOptions,
    clock: Option<Arc<HybridClock>>,
}

impl<S: Transactions> Consumer<S> {
    /// A consumer of this source that marks events in this inbox. Either may be shared, in an [`Arc`].
    pub fn builder(source: impl Source + 'static, inbox: S) -> ConsumerBuilder<S> {
        let (source, inbox) = (Arc::new(source), Arc::new(inbox));
        ConsumerBuilder { source, inbox, name: None, options: ConsumerOptions::default(), clock: None }
    }

    /// Consumes until `shutdown` resolves, or until the source was idle for as long as the options say; then
    /// finishes what is in flight and returns what it did. A lost connection is restarted.
    ///
    /// The handler gets the transaction that holds the mark: what it writes there happens once. A handler that fails
    /// gives its message back to the broker; messages of its key that were received already are given back behind
    /// it. How a broker orders what it delivers again is its own: where order must hold through failures, set
    /// [`retries`](ConsumerOptions::retries), which keep the key waiting.
    ///
    /// The future can be spawned when the handler owns what it uses, as an `async move` closure does: the compiler
    /// cannot see yet that the future of a closure that borrows is `Send`.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use pillarbox_core::{Event, Result, port::{Source, Stage, Transactions}};
    /// # use pillarbox_engine::Consumer;
    /// # async fn example<I>(source: Arc<dyn Source>, inbox: Arc<I>, outbox: Arc<dyn Stage<I::Tx>>) -> Result<()>
    /// # where I: Transactions + 'static {
    /// let consumer = Consumer::builder(source, inbox).name("billing").build()?;
    /// let shutdown = std::future::pending();
    /// let tally = consumer
    ///     .run(shutdown, async move |tx, event| {
    ///         let invoice = event.causes(Event::new("invoice.sent", event.payload.clone()));
    ///         outbox.stage_all(tx, vec![invoice]).await?;
    ///         Ok(())
    ///     })
    ///     .await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Only for what waiting cannot mend, such as a queue that does not exist or missing rights.
    pub async fn run<F>(&self, shutdown: impl Future<Output = ()>, handler: F) -> Result<ConsumerTally>
    where
        F: AsyncFn(&mut S::Tx, Received) -> Result<(), HandlerError>,
    {
        Flow::new(self, &handler).run(shutdown).await
    }
}

/// Builds a [`Consumer`]. Only the name is required.
#[must_use]
pub struct ConsumerBuilder<S: Transactions> {
    source: Arc<dyn Source>,
    inbox: Arc<S>,
    name: Option<String>,
    options: ConsumerOptions,
    clock: Option<Arc<HybridClock>>,
}

impl<S: Transactions> ConsumerBuilder<S> {
    /// Who applies the events: consumers of distinct names are independent. 1 to 255 characters.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// How to consume. Default: [`ConsumerOptions::default`].
    pub fn options(mut self, options: ConsumerOptions) -> Self {
        self.options = options;
        self
    }

    /// The clock that the stamps of fresh events are merged into. Default: the clock of this process.
    pub fn clock(mut self, clock: Arc<HybridClock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Checks everything and builds.
    ///
    /// # Errors
    /// When the name is missing or out of bounds, or an option cannot work.
    pub fn build(self) -> Result<Consumer<S>> {
        let name =
            self.name.ok_or_else(|| Error::invalid("a consumer needs a name: call .name(\"billing\")"))?;
        pillarbox_core::check_name("consumer", &name)?;
        self.options.check()?;
        if self.options.max_deliveries.is_some() && !self.source.capabilities().delivery_count {
            tracing::warn!(consumer = %name, "this source tells no delivery count: max_deliveries has no effect");
        }
        Ok(Consumer {
            source: self.source,
            inbox: self.inbox,
            name,
            options: self.options,
            clock: self.clock,
        })
    }
}
