//! Planted defects that the simulator must find: those of the in-memory store, and some made by layers on the ports.

mod lanes;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use pillarbox_core::port::{
    Claim, ClaimRequest, ExtendRequest, Extended, Lanes, ReapRequest, Reaped, Report, SettleRequest, Settled,
    Sink, SinkCapabilities, Store, Verdict,
};
use pillarbox_core::{Entry, Outcome, Result};

use lanes::{AnonymousSink, BoastfulSink, MutantLanes};

use super::chaos::Chaos;
use pillarbox_testkit::Mutant;

/// One planted defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SimMutant {
    /// A defect of the in-memory store.
    Store(Mutant),
    /// The sink confirms first and delivers afterwards: a crash in between loses what was confirmed.
    ConfirmBeforeDelivery,
    /// What a relay gives back is recorded as delivered.
    ReleaseIsDelivered,
    /// Nobody returns expired leases or buries what has no attempts left.
    NeverReaps,
    /// Leases are said to be prolonged and are not.
    ExtendDoesNothing,
    /// A relay that stops keeps what it should give back.
    ReleaseIsForgotten,
    /// A relay that finds nothing asks again and again.
    AsksInALoop,
    /// A reader of lanes is never told what became visible behind it.
    LanesByLastSeq,
    /// A reader of lanes does not see keys, so a failed head holds nothing back.
    HeadOfLineIsIgnored,
    /// A reader of lanes is not told what is dead.
    DeadHeadsAreForgotten,
    /// A store does not heed what a reader of lanes says is in flight: no suspect is ever accused.
    IsolationIsIgnored,
    /// A relay that leaves keeps its lanes.
    SessionsAreLeftBehind,
    /// Envelopes carry neither lane nor fence.
    EnvelopeWithoutFence,
    /// A sink says that a failure stops what follows it, and goes on.
    PrefixIsNotKept,
    /// What a relay has given up is published all the same, long after its lease.
    PublishesTooLate,
}

impl From<Mutant> for SimMutant {
    fn from(mutant: Mutant) -> Self {
        Self::Store(mutant)
    }
}

impl SimMutant {
    /// The store below the weather.
    pub(crate) fn store(self, inner: Arc<dyn Store>) -> Arc<dyn Store> {
        match self {
            Self::ReleaseIsDelivered | Self::NeverReaps | Self::ExtendDoesNothing => {
                Arc::new(MutantStore { inner, mutant: self })
            }
            _ => inner,
        }
    }

    /// The lanes below the weather.
    pub(crate) fn lanes(self, inner: Arc<dyn Lanes>) -> Arc<dyn Lanes> {
        match self {
            Self::LanesByLastSeq
            | Self::HeadOfLineIsIgnored
            | Self::DeadHeadsAreForgotten
            | Self::IsolationIsIgnored => Arc::new(MutantLanes { inner, mutant: self }),
            _ => inner,
        }
    }

    /// The lanes above the weather.
    pub(crate) fn lanes_above(self, inner: Arc<dyn Lanes>) -> Arc<dyn Lanes> {
        match self {
            Self::SessionsAreLeftBehind => Arc::new(MutantLanes { inner, mutant: self }),
            _ => inner,
        }
    }

    /// The store above the weather.
    pub(crate) fn store_above(self, inner: Arc<dyn Store>) -> Arc<dyn Store> {
        match self {
            Self::ReleaseIsForgotten | Self::AsksInALoop => Arc::new(MutantStore { inner, mutant: self }),
            _ => inner,
        }
    }

    /// The sink above the weather.
    pub(crate) fn sink_above(self, inner: Arc<dyn Sink>, chaos: &Chaos, lease: Duration) -> Arc<dyn Sink> {
        match self {
            Self::ConfirmBeforeDelivery => Arc::new(EagerSink(inner)),
            Self::EnvelopeWithoutFence => Arc::new(AnonymousSink(inner)),
            Self::PrefixIsNotKept => Arc::new(BoastfulSink(inner)),
            Self::PublishesTooLate => Arc::new(LateSink { inner, chaos: chaos.clone(), wait: lease * 2 }),
            _ => inner,
        }
    }
}

/// How often a relay that asks in a loop asks.
const ASKS: u32 = 300;

struct MutantStore {
    inner: Arc<dyn Store>,
    mutant: SimMutant,
}

#[async_trait]
impl Store for MutantStore {
    async fn claim(&self, request: ClaimRequest) -> Result<Claim> {
        let mut claim = self.inner.claim(request.clone()).await?;
        if self.mutant == SimMutant::AsksInALoop {
            for _ in 0..ASKS {
                if claim.entries.is_empty() {
                    claim = self.inner.claim(request.clone()).await?;
                }
            }
        }
        Ok(claim)
    }

    async fn extend(&self, request: ExtendRequest) -> Result<Extended> {
        if self.mutant == SimMutant::ExtendDoesNothing {
            return Ok(Extended::default());
        }
        self.inner.extend(request).await
    }

    async fn settle(&self, mut request: SettleRequest) -> Result<Settled> {
        if self.mutant == SimMutant::ReleaseIsDelivered {
            for settlement in &mut request.settlements {
                if matches!(settlement.verdict, Verdict::Release { .. }) {
                    settlement.verdict = Verdict::Delivered;
                }
            }
        }
        if self.mutant == SimMutant::ReleaseIsForgotten {
            request.settlements.retain(|settlement| !matches!(settlement.verdict, Verdict::Release { .. }));
        }
        self.inner.settle(request).await
    }

    async fn reap(&self, request: ReapRequest) -> Result<Reaped> {
        if self.mutant == SimMutant::NeverReaps {
            return Ok(Reaped::default());
        }
        self.inner.reap(request).await
    }
}

struct EagerSink(Arc<dyn Sink>);

#[async_trait]
impl Sink for EagerSink {
    fn capabilities(&self) -> SinkCapabilities {
        self.0.capabilities()
    }

    async fn deliver(&self, batch: &[Entry], report: &dyn Report) {
        for index in 0..batch.len() {
            report.outcome(index, Outcome::Confirmed);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        self.0.deliver(batch, &Unheard).await;
    }
}

struct LateSink {
    inner: Arc<dyn Sink>,
    chaos: Chaos,
    wait: Duration,
}

#[async_trait]
impl Sink for LateSink {
    fn capabilities(&self) -> SinkCapabilities {
        self.inner.capabilities()
    }

    async fn deliver(&self, batch: &[Entry], _report: &dyn Report) {
        let (inner, batch) = (Arc::clone(&self.inner), batch.to_vec());
        self.chaos.later(self.wait, async move {
            // Nobody is left to contain a panic of the sink.
            let _ = AssertUnwindSafe(inner.deliver(&batch, &Unheard)).catch_unwind().await;
        });
    }
}

struct Unheard;

impl Report for Unheard {
    fn outcome(&self, _index: usize, _outcome: Outcome) {}
}
