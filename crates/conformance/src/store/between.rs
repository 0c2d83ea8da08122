//! A store between the relay and the store under test: it fails when told, and remembers what was done.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use pillarbox_core::port::{
    Claim, ClaimRequest, ExtendRequest, Extended, ReapRequest, Reaped, SettleRequest, Settled, Sink, Store,
    Verdict,
};
use pillarbox_core::{Backoff, Error, ErrorKind, Jitter, Result};
use pillarbox_engine::{Relay, RelayBuilder, RelayOptions};

use super::steps::{ROUTE, count};
use crate::StoreHarness;
use pillarbox_testkit::eventually;

/// Long enough that only a relay that hangs gets there.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Short waits, so that what is retried is soon due again.
pub(super) fn options() -> RelayOptions {
    let mut options = RelayOptions::broker();
    let wait = Duration::from_millis(1);
    options.backoff = Backoff::new(wait, wait, Jitter::None).unwrap();
    options.poll_min = wait;
    options.poll_max = Duration::from_millis(20);
    options
}

/// A relay from the store under test to this sink.
pub(super) fn relay_to<H: StoreHarness>(harness: &H, sink: impl Sink + 'static) -> RelayBuilder {
    Relay::builder(harness.store(), sink).route(ROUTE).options(options()).owner("relay-1").seed(1)
}

/// Drains again and again until every entry is at its end.
pub(super) async fn drain_out<H: StoreHarness>(harness: &H, relay: &Relay) {
    eventually(PATIENCE, async || {
        relay.drain().await.unwrap();
        undrained(harness).await == 0
    })
    .await;
}

/// Entries of [`ROUTE`] that are not at their end.
pub(super) async fn undrained<H: StoreHarness>(harness: &H) -> u64 {
    use pillarbox_core::Status::{InFlight, Pending, Retrying};
    count(harness, Pending).await + count(harness, InFlight).await + count(harness, Retrying).await
}

/// Passes calls on, fails the chosen ones, and records those that succeeded.
pub(super) struct Between {
    inner: Arc<dyn Store>,
    faults: Mutex<VecDeque<ErrorKind>>,
    log: Arc<Mutex<Vec<String>>>,
}

impl Between {
    pub(super) fn new(inner: Arc<dyn Store>, faults: impl IntoIterator<Item = ErrorKind>) -> Self {
        Self { inner, faults: Mutex::new(faults.into_iter().collect()), log: Arc::default() }
    }

    /// What succeeded, in order; others may write to it too.
    pub(super) fn log(&self) -> Arc<Mutex<Vec<String>>> {
        Arc::clone(&self.log)
    }

    /// The next planned fault, before any effect.
    fn fault(&self) -> Result<()> {
        match lock(&self.faults).pop_front() {
            Some(kind) => Err(Error::new(kind, "a planned fault")),
            None => Ok(()),
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl Store for Between {
    async fn claim(&self, request: ClaimRequest) -> Result<Claim> {
        self.fault()?;
        self.inner.claim(request).await
    }

    async fn extend(&self, request: ExtendRequest) -> Result<Extended> {
        self.inner.extend(request).await
    }

    async fn settle(&self, request: SettleRequest) -> Result<Settled> {
        self.fault()?;
        let deaths = request
            .settlements
            .iter()
            .filter(|settlement| matches!(settlement.verdict, Verdict::Dead { .. }));
        let deaths = deaths.count();
        let settled = self.inner.settle(request).await?;
        lock(&self.log).extend((0..deaths).map(|_| "dead is durable".to_owned()));
        Ok(settled)
    }

    async fn reap(&self, request: ReapRequest) -> Result<Reaped> {
        self.inner.reap(request).await
    }
}
