//! Retention: delivered entries, rows of the inbox and ended sagas go after a while, in small batches that never block
//! live traffic.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use pillarbox_core::limits::BATCH_MAX;
use pillarbox_core::port::{Admin, Effect, PurgeRequest, Purged, Purging, SagaAdmin};
use pillarbox_core::{Error, Result};

/// How long settled entries, rows of the inbox and ended sagas stay.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RetentionOptions {
    /// How long delivered and discarded entries stay. Dead entries are never purged by age. Default: 1 day.
    pub delivered: Duration,
    /// How long the inbox remembers an accepted event. Set it longer than the time after which a broker or a
    /// relay can still redeliver the event: a forgotten event is applied again. Default: 30 days.
    pub inbox: Duration,
    /// How long a saga stays after it completed, was compensated or was abandoned. Other sagas are never
    /// purged, and neither are audit records. Default: 30 days.
    pub sagas: Duration,
    /// How often the store is purged. Default: 1 min.
    pub interval: Duration,
    /// The most entries, rows or sagas that one delete takes. Default: 1,000.
    pub batch: u32,
    /// The actor of the purge in the audit trail. Default: `retention`.
    pub actor: String,
}

pillarbox_core::setters! {
impl RetentionOptions {
    /// Sets [`delivered`](Self#structfield.delivered).
    delivered: Duration;
    /// Sets [`inbox`](Self#structfield.inbox).
    inbox: Duration;
    /// Sets [`sagas`](Self#structfield.sagas).
    sagas: Duration;
    /// Sets [`interval`](Self#structfield.interval).
    interval: Duration;
    /// Sets [`batch`](Self#structfield.batch).
    batch: u32;
    /// Sets [`actor`](Self#structfield.actor).
    actor: String as into;
}
}

impl Default for RetentionOptions {
    fn default() -> Self {
        Self {
            delivered: Duration::from_secs(24 * 3600),
            inbox: Duration::from_secs(30 * 24 * 3600),
            sagas: Duration::from_secs(30 * 24 * 3600),
            interval: Duration::from_secs(60),
            batch: 1_000,
            actor: "retention".into(),
        }
    }
}

/// Purges entries that were settled, events that were accepted, and sagas that ended, once they are old
/// enough.
///
/// A relay purges its own store. This type is for a process without a relay.
///
/// ```
/// use std::time::Duration;
/// use pillarbox_engine::{Retention, RetentionOptions};
/// use pillarbox_testkit::MemoryStore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> pillarbox_core::Result<()> {
/// let options = RetentionOptions::default().delivered(Duration::from_secs(3600));
/// let retention = Retention::new(MemoryStore::new(), options)?;
/// let purged = retention.run_once().await?;
/// assert_eq!(purged, 0);
/// # Ok(())
/// # }
/// ```
pub struct Retention {
    admin: Arc<dyn Admin>,
    sagas: Option<Arc<dyn SagaAdmin>>,
    options: RetentionOptions,
}

impl Retention {
    /// Checks the options and builds the retention of entries and of the inbox. A program that has the store as an
    /// `Arc<dyn Admin>` calls [`of`](Self::of).
    ///
    /// # Errors
    /// When the batch, the interval or the inbox's time cannot work.
    pub fn new(admin: impl Admin + 'static, options: RetentionOptions) -> Result<Self> {
        Self::of(Purging { admin: Arc::new(admin), sagas: None }, options)
    }

    /// Retention of everything that a store can purge.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn of(purging: Purging, options: RetentionOptions) -> Result<Self> {
        if options.batch == 0 || options.batch > BATCH_MAX {
            return Err(Error::invalid(format!(
                "the retention batch is {}; it must be 1 to {BATCH_MAX}",
                options.batch
            )));
        }
        if options.interval.is_zero() {
            return Err(Error::invalid("the retention interval must be more than zero"));
        }
        if options.inbox.is_zero() {
            return Err(Error::invalid(
                "the retention of the inbox is zero: the inbox would forget each event at once and apply \
                 duplicates. Set `inbox` to more than zero",
            ));
        }
        Ok(Self { admin: purging.admin, sagas: purging.sagas, options })
    }

    /// Purges ended sagas too. Without this call they are kept for ever.
    #[must_use]
    pub fn sagas(mut self, sagas: impl SagaAdmin + 'static) -> Self {
        self.sagas = Some(Arc::new(sagas));
        self
    }

    /// Purges everything that is old enough now, batch by batch. Returns the number of deleted entries, rows
    /// and sagas.
    ///
    /// # Errors
    /// When the store fails. Batches that were deleted by then stay deleted, and are audited.
    pub async fn run_once(&self) -> Result<u64> {
        let entries = self.batches(self.options.delivered, |request| self.admin.purge(request)).await?;
        let rows = self.batches(self.options.inbox, |request| self.admin.purge_inbox(request)).await?;
        let sagas = match &self.sagas {
            Some(sagas) => self.batches(self.options.sagas, |request| sagas.purge_sagas(request)).await?,
            None => 0,
        };
        Ok(entries + rows + sagas)
    }

    /// Purges batch by batch until one is not full.
    async fn batches<'a, F>(&self, older_than: Duration, purge: F) -> Result<u64>
    where
        F: Fn(PurgeRequest) -> BoxFuture<'a, Result<Purged>>,
    {
        let mut total = 0;
        loop {
            let request = PurgeRequest {
                older_than,
                limit: self.options.batch,
                actor: self.options.actor.clone(),
                effect: Effect::Apply,
                now: None,
            };
            let purged = purge(request).await?.purged;
            total += purged;
            if purged < u64::from(self.options.batch) {
                return Ok(total);
            }
            // Live traffic goes first: a long purge yields between its batches.
            tokio::task::yield_now().await;
        }
    }

    /// Purges at every interval until `shutdown` resolves. If the store fails, the next interval tries again.
    pub async fn run(&self, shutdown: impl Future<Output = ()> + Send) {
        let mut shutdown = pin!(shutdown);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => return,
                result = self.run_once() => match result {
                    Ok(0) => {}
                    Ok(purged) => tracing::info!(purged, "retention"),
                    Err(error) => tracing::warn!(%error,
                        "old entries could not be purged; retention tries again after its interval",
                    ),
                },
            }
            tokio::select! {
                biased;
                () = &mut shutdown => return,
                () = tokio::time::sleep(self.options.interval) => {}
            }
        }
    }
}
