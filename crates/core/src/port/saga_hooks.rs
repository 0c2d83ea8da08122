//! Callbacks of an application in the transaction in which a saga moves.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;

use crate::error::Result;
use crate::saga::{Moves, NewAudit, SagaRecord};

/// The future that a callback returns: `Box::pin(async move { … })`.
pub type SagaEnding<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

/// A callback that runs in the transaction in which a saga ends, completed or compensated. Its writes are committed
/// once, together with the end of the saga.
///
/// If the callback fails, the last outcome is not recorded either, and the step is tried again when its lease ends.
/// The same happens if a statement of the callback fails and the callback goes on, because that transaction cannot
/// be committed.
#[async_trait]
pub trait SagaEnd<Tx: Send>: Send + Sync {
    /// Called when the saga has ended. Its status says how.
    async fn ended(&self, tx: &mut Tx, saga: &SagaRecord) -> Result<()>;
}

#[async_trait]
impl<Tx, F> SagaEnd<Tx> for F
where
    Tx: Send,
    F: for<'a> Fn(&'a mut Tx, &'a SagaRecord) -> SagaEnding<'a> + Send + Sync,
{
    async fn ended(&self, tx: &mut Tx, saga: &SagaRecord) -> Result<()> {
        self(tx, saga).await
    }
}

/// Receives the audit records of sagas in addition to the audit table. It is called in the same transaction, before
/// the status that the records explain. If it fails, nothing is recorded, and the work is done again under the same
/// keys.
#[async_trait]
pub trait AuditSink<Tx: Send>: Send + Sync {
    /// Receives the records of one transaction, in order.
    async fn record(&self, tx: &mut Tx, records: &[NewAudit]) -> Result<()>;
}

/// The callback and the audit sinks of one relay. An application sets them; a store calls them.
pub struct SagaHooks<Tx> {
    end: Option<Arc<dyn SagaEnd<Tx>>>,
    sinks: Vec<Arc<dyn AuditSink<Tx>>>,
}

impl<Tx> Clone for SagaHooks<Tx> {
    fn clone(&self) -> Self {
        Self { end: self.end.clone(), sinks: self.sinks.clone() }
    }
}

impl<Tx> Default for SagaHooks<Tx> {
    fn default() -> Self {
        Self { end: None, sinks: Vec::new() }
    }
}

impl<Tx: Send + 'static> SagaHooks<Tx> {
    /// Sets the callback that runs when a saga ends.
    #[must_use]
    pub fn end(mut self, end: Arc<dyn SagaEnd<Tx>>) -> Self {
        self.end = Some(end);
        self
    }

    /// Adds a sink for audit records.
    #[must_use]
    pub fn sink(mut self, sink: Arc<dyn AuditSink<Tx>>) -> Self {
        self.sinks.push(sink);
        self
    }

    /// Whether these moves need a transaction in which the application can write.
    #[must_use]
    pub fn wants(&self, moves: &Moves) -> bool {
        (self.end.is_some() && moves.ended) || (!self.sinks.is_empty() && !moves.audit.is_empty())
    }

    /// Passes the audit records to the sinks, before anything is written.
    ///
    /// # Errors
    /// When a sink refuses; nothing may be written then.
    pub async fn record(&self, tx: &mut Tx, moves: &Moves) -> Result<()> {
        for sink in &self.sinks {
            if !moves.audit.is_empty() {
                sink.record(tx, &moves.audit).await?;
            }
        }
        Ok(())
    }

    /// If the saga has just ended, runs the callback after everything was written and before the commit.
    ///
    /// # Errors
    /// When it fails; everything must be rolled back then.
    pub async fn ended(&self, tx: &mut Tx, moves: &Moves, saga: &SagaRecord) -> Result<()> {
        match &self.end {
            Some(end) if moves.ended => end.ended(tx, saga).await,
            _ => Ok(()),
        }
    }
}

/// Writes the setters for a store's sagas, a type with a field `hooks: SagaHooks<Tx>`.
///
/// ```
/// # struct Tx;
/// #[derive(Default)]
/// struct Sagas {
///     hooks: pillarbox_core::port::SagaHooks<Tx>,
/// }
///
/// pillarbox_core::saga_hooks!(Sagas, Tx);
///
/// let sagas = Sagas::default().on_end(|_, _| Box::pin(async { Ok(()) }));
/// ```
#[macro_export]
macro_rules! saga_hooks {
    ($sagas:ident, $tx:ty) => {
        impl $sagas {
            /// Sets the callback that runs in the transaction in which a saga ends.
            #[must_use]
            pub fn on_end<F>(self, end: F) -> Self
            where
                F: for<'a> Fn(&'a mut $tx, &'a $crate::SagaRecord) -> $crate::port::SagaEnding<'a>
                    + Send
                    + Sync
                    + 'static,
            {
                self.end(::std::sync::Arc::new(end))
            }

            /// Sets a callback that is a type of its own, in place of a closure.
            #[must_use]
            pub fn end(mut self, end: ::std::sync::Arc<dyn $crate::port::SagaEnd<$tx>>) -> Self {
                self.hooks = self.hooks.end(end);
                self
            }

            /// Sets all callbacks and sinks at once.
            #[must_use]
            pub fn hooks(mut self, hooks: $crate::port::SagaHooks<$tx>) -> Self {
                self.hooks = hooks;
                self
            }

            /// Adds a sink for audit records.
            #[must_use]
            pub fn audit_sink(mut self, sink: ::std::sync::Arc<dyn $crate::port::AuditSink<$tx>>) -> Self {
                self.hooks = self.hooks.sink(sink);
                self
            }
        }
    };
}
