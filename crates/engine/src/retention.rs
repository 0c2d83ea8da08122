//! Retention: delivered entries go after a while, in small batches that never block live traffic.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use pillarbox_core::limits::BATCH_MAX;
use pillarbox_core::port::{Admin, Effect, PurgeRequest};
use pillarbox_core::{Error, Result};

/// How long settled entries stay.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RetentionOptions {
    /// How long delivered and discarded entries stay. Dead ones are never purged by age. Default: 1 day.
    pub delivered: Duration,
    /// How often to look. Default: 1 min.
    pub interval: Duration,
    /// Most entries of one delete. Default: 1,000.
    pub batch: u32,
    /// Who purges, for the audit trail. Default: `retention`.
    pub actor: String,
}

impl Default for RetentionOptions {
    fn default() -> Self {
        Self {
            delivered: Duration::from_secs(24 * 3600),
            interval: Duration::from_secs(60),
            batch: 1_000,
            actor: "retention".into(),
        }
    }
}

/// Purges what was settled long enough ago.
pub struct Retention {
    admin: Arc<dyn Admin>,
    options: RetentionOptions,
}

impl Retention {
    /// Checks the options and builds.
    ///
    /// # Errors
    /// When the batch or the interval cannot work.
    pub fn new(admin: Arc<dyn Admin>, options: RetentionOptions) -> Result<Self> {
        if options.batch == 0 || options.batch > BATCH_MAX {
            return Err(Error::invalid(format!("the retention batch must be 1 to {BATCH_MAX}")));
        }
        if options.interval.is_zero() {
            return Err(Error::invalid("the retention interval must be more than zero"));
        }
        Ok(Self { admin, options })
    }

    /// Purges everything that is old enough now, batch by batch, and returns how many.
    ///
    /// # Errors
    /// When the store fails; what was purged by then stays purged, and is audited.
    pub async fn run_once(&self) -> Result<u64> {
        let mut total = 0;
        loop {
            let request = PurgeRequest {
                older_than: self.options.delivered,
                limit: self.options.batch,
                actor: self.options.actor.clone(),
                effect: Effect::Apply,
                now: None,
            };
            let purged = self.admin.purge(request).await?.purged;
            total += purged;
            if purged < u64::from(self.options.batch) {
                return Ok(total);
            }
            // Live traffic goes first: a long purge yields between its batches.
            tokio::task::yield_now().await;
        }
    }

    /// Purges at every interval until `shutdown` resolves. A failing store is tried again at the next one.
    pub async fn run(&self, shutdown: impl Future<Output = ()> + Send) {
        let mut shutdown = pin!(shutdown);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => return,
                result = self.run_once() => match result {
                    Ok(0) => {}
                    Ok(purged) => tracing::info!(purged, "retention"),
                    Err(error) => tracing::warn!(%error, "retention failed; it is tried again"),
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
