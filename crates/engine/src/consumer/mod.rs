//! The consumer: receives events, marks and handles them in one transaction, and only then acknowledges them.

mod batch;
mod flow;
mod gathering;
mod handler;
mod one;
mod options;
mod stream;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use pillarbox_core::port::{Source, Transactions};
use pillarbox_core::{Error, HybridClock, Received, Result};
use pillarbox_host::Tracer;

use crate::observe::{Observe, Observer};
use crate::sink::HandlerError;
use crate::trace::{Destination, Traces};

pub use options::{ConsumerOptions, ConsumerTally};

use flow::Flow;
use handler::{Each, Together};

/// Applies each event of a source once, through an inbox.
///
/// The consumer writes its mark in the inbox in the same transaction as the handler's own write. So a
/// duplicate is acknowledged without running the handler, and a failed handler leaves no mark. The consumer
/// acknowledges the message after the commit. If it crashes between the two, the message comes again and is a
/// duplicate.
pub struct Consumer<S: Transactions> {
    source: Arc<dyn Source>,
    inbox: Arc<S>,
    name: String,
    options: ConsumerOptions,
    clock: Option<Arc<HybridClock>>,
    observer: Observer,
    traces: Traces,
}

impl<S: Transactions> Consumer<S> {
    /// A consumer of this source that marks events in this inbox. Either may be shared, in an [`Arc`].
    pub fn builder(source: impl Source + 'static, inbox: S) -> ConsumerBuilder<S> {
        let (source, inbox) = (Arc::new(source), Arc::new(inbox));
        ConsumerBuilder {
            source,
            inbox,
            name: None,
            options: ConsumerOptions::default(),
            clock: None,
            observer: Observer::default(),
            traces: Traces::default(),
        }
    }

    /// Consumes until `shutdown` resolves, or until the source was idle for as long as the options allow. It
    /// then finishes the messages in flight and returns a tally. If the connection is lost, the consumer
    /// opens it again.
    ///
    /// The handler gets the transaction that holds the mark: a write in that transaction happens once. In
    /// [batches](ConsumerOptions::batch), it is called for each fresh event of the batch in one transaction. If the
    /// handler fails, the consumer gives the message back to the broker. Messages of the same key that were
    /// already received are given back after it. The broker decides in which order it redelivers them. Where
    /// order must hold through failures, set [`retries`](ConsumerOptions::retries): during a retry the other
    /// messages of the key wait.
    ///
    /// If the handler owns everything that it uses, as an `async move` closure does, the future can be
    /// spawned. For a closure that borrows, the compiler cannot yet prove that the future is `Send`.
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
    /// Only for an error that does not go away by waiting, such as a missing queue or missing rights.
    pub async fn run<F>(&self, shutdown: impl Future<Output = ()>, handler: F) -> Result<ConsumerTally>
    where
        F: AsyncFn(&mut S::Tx, Received) -> Result<(), HandlerError>,
    {
        Flow::new(self, &Each(handler)).run(shutdown).await
    }

    /// Consumes as [`run`](Self::run) does, with a handler that gets all fresh events of a transaction at once.
    ///
    /// The events stand in the order in which they arrived, at most
    /// [`batch_max`](ConsumerOptions::batch_max) of them and at least one. They are committed together. If the
    /// handler fails, the transaction is rolled back and the events come again in smaller batches, until the event
    /// that fails is by itself. What the handler says about that one decides what becomes of it.
    ///
    /// ```
    /// # use std::{sync::Arc, time::Duration};
    /// # use pillarbox_core::{Event, Result, port::{Source, Stage, Transactions}};
    /// # use pillarbox_engine::Consumer;
    /// # async fn example<I>(source: Arc<dyn Source>, inbox: Arc<I>, outbox: Arc<dyn Stage<I::Tx>>) -> Result<()>
    /// # where I: Transactions + 'static {
    /// let consumer =
    ///     Consumer::builder(source, inbox).name("billing").batch(100, Duration::from_millis(20)).build()?;
    /// # let shutdown = std::future::pending();
    /// let tally = consumer
    ///     .run_batches(shutdown, async move |tx, events| {
    ///         let invoices = events.iter().map(|event| event.causes(Event::new("invoice.sent", "{}")));
    ///         outbox.stage_all(tx, invoices.collect()).await?;
    ///         Ok(())
    ///     })
    ///     .await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub async fn run_batches<F>(
        &self,
        shutdown: impl Future<Output = ()>,
        handler: F,
    ) -> Result<ConsumerTally>
    where
        F: AsyncFn(&mut S::Tx, Vec<Received>) -> Result<(), HandlerError>,
    {
        Flow::new(self, &Together(handler)).run(shutdown).await
    }

    /// Where the messages come from, for traces.
    fn place(&self) -> Destination<'_> {
        let name = self.source.name().unwrap_or(&self.name);
        Destination { system: self.source.capabilities().system, name }
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
    observer: Observer,
    traces: Traces,
}

impl<S: Transactions> ConsumerBuilder<S> {
    /// The name of the consumer, 1 to 255 characters. Consumers with different names are independent: each
    /// applies every event once.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// How the consumer treats its messages. Default: [`ConsumerOptions::default`].
    pub fn options(mut self, options: ConsumerOptions) -> Self {
        self.options = options;
        self
    }

    /// Handles up to `max` messages in one transaction, as [`ConsumerOptions::batch`] describes.
    pub fn batch(mut self, max: usize, within: Duration) -> Self {
        self.options = self.options.batch(max, within);
        self
    }

    /// The clock into which the consumer merges the stamps of fresh events. Default: the clock of this
    /// process.
    pub fn clock(mut self, clock: Arc<HybridClock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Sets an observer, such as the metrics of this consumer. Default: none.
    pub fn observer(mut self, observer: impl Observe + 'static) -> Self {
        self.observer = Observer::new(observer);
        self
    }

    /// Sets the tracer. Each message then has a *process* span around the handler, tied to the context that was stored
    /// with its event, and a *settle* span for the answer to the broker. A batch has one of each, linked to the
    /// contexts of all its events. Default: none.
    pub fn tracer(mut self, tracer: impl Tracer + 'static) -> Self {
        self.traces = Traces::new(tracer);
        self
    }

    /// Checks the name and the options, and builds the consumer.
    ///
    /// # Errors
    /// When the name is missing or out of bounds, or an option cannot work.
    pub fn build(self) -> Result<Consumer<S>> {
        let name =
            self.name.ok_or_else(|| Error::invalid("the consumer has no name: call .name(\"billing\")"))?;
        pillarbox_core::check_name("consumer", &name)?;
        self.options.check()?;
        if self.options.max_deliveries.is_some() && !self.source.capabilities().delivery_count {
            tracing::warn!(
                consumer = %name,
                "this broker does not report delivery counts, so `max_deliveries` has no effect"
            );
        }
        Ok(Consumer {
            source: self.source,
            inbox: self.inbox,
            name,
            options: self.options,
            clock: self.clock,
            observer: self.observer,
            traces: self.traces,
        })
    }
}
