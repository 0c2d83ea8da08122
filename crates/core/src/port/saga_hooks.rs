//! What an application hangs into the transaction in which a saga moves.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;

use crate::error::Result;
use crate::saga::{Moves, NewAudit, SagaRecord};

/// What a callback returns: `Box::pin(async move { … })`.
pub type SagaEnding<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

/// Is called in the transaction in which a saga ends, completed or compensated: what it writes there is written once,
/// with the end, and if it fails the last outcome is not recorded either. The lease heals that. The same holds for a
/// callback that goes on after a statement of its own has failed, and leaves a transaction that cannot be committed.
#[async_trait]
pub trait SagaEnd<Tx: Send>: Send + Sync {
    /// The saga has ended; its status says how.
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

/// Takes audit records of sagas beside the table, in the same transaction and before the status that they explain.
/// If it fails nothing is recorded, and the work is done again under the same keys.
#[async_trait]
pub trait AuditSink<Tx: Send>: Send + Sync {
    /// Takes the records of one transaction, in their order.
    async fn record(&self, tx: &mut Tx, records: &[NewAudit]) -> Result<()>;
}

/// The callbacks and sinks of one relay. A store calls them; an application sets them.
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
    /// Sets what is called when a saga ends.
    #[must_use]
    pub fn end(mut self, end: Arc<dyn SagaEnd<Tx>>) -> Self {
        self.end = Some(end);
        self
    }

    /// Adds a sink of audit records.
    #[must_use]
    pub fn sink(mut self, sink: Arc<dyn AuditSink<Tx>>) -> Self {
        self.sinks.push(sink);
        self
    }

    /// Whether these moves need a transaction that the application can write in.
    #[must_use]
    pub fn wants(&self, moves: &Moves) -> bool {
        (self.end.is_some() && moves.ended) || (!self.sinks.is_empty() && !moves.audit.is_empty())
    }

    /// Tells the sinks, before anything is written.
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

    /// Calls the callback if the saga has just ended, after everything was written and before the commit.
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

/// The setters of a store's sagas: a type with a field `hooks: SagaHooks<Tx>`.
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
            /// Sets what is called in the transaction in which a saga ends.
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

            /// The same for a type of its own.
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

            /// Adds a sink of audit records.
            #[must_use]
            pub fn audit_sink(mut self, sink: ::std::sync::Arc<dyn $crate::port::AuditSink<$tx>>) -> Self {
                self.hooks = self.hooks.sink(sink);
                self
            }
        }
    };
}
