//! Planted defects of whoever reads lanes, made by layers on the ports.

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_core::port::{
    AttendRequest, Attendance, FetchRequest, Fetched, HandOverRequest, Head, HeadsRequest, IsolateRequest,
    LaneRead, LaneSettleRequest, Lanes, Passed, PassedRequest, ReadRequest, ReapRequest, Reaped, Report,
    Settled, Sink, SinkCapabilities,
};
use pillarbox_core::{Entry, Fence, Result};

use super::SimMutant;

pub(super) struct MutantLanes {
    pub(super) inner: Arc<dyn Lanes>,
    pub(super) mutant: SimMutant,
}

impl MutantLanes {
    fn strip(&self, entries: &mut [Entry]) {
        if self.mutant == SimMutant::HeadOfLineIsIgnored {
            for entry in entries {
                entry.key = None;
            }
        }
    }
}

#[async_trait]
impl Lanes for MutantLanes {
    async fn attend(&self, request: AttendRequest) -> Result<Attendance> {
        self.inner.attend(request).await
    }

    async fn read(&self, request: ReadRequest) -> Result<LaneRead> {
        let mut read = self.inner.read(request).await?;
        self.strip(&mut read.entries);
        if self.mutant == SimMutant::LanesByLastSeq {
            read.behind.clear();
        }
        Ok(read)
    }

    async fn passed(&self, request: PassedRequest) -> Result<Passed> {
        let mut passed = self.inner.passed(request).await?;
        if self.mutant == SimMutant::LanesByLastSeq {
            passed.seqs.clear();
        }
        Ok(passed)
    }

    async fn fetch(&self, request: FetchRequest) -> Result<Fetched> {
        let mut fetched = self.inner.fetch(request).await?;
        self.strip(&mut fetched.entries);
        Ok(fetched)
    }

    async fn heads(&self, request: HeadsRequest) -> Result<Vec<Head>> {
        if self.mutant == SimMutant::DeadHeadsAreForgotten {
            return Ok(Vec::new());
        }
        self.inner.heads(request).await
    }

    async fn isolate(&self, mut request: IsolateRequest) -> Result<bool> {
        if self.mutant == SimMutant::IsolationIsIgnored {
            request.only = None;
        }
        self.inner.isolate(request).await
    }

    async fn reap_rows(&self, request: ReapRequest) -> Result<Reaped> {
        self.inner.reap_rows(request).await
    }

    async fn settle(&self, request: LaneSettleRequest) -> Result<Settled> {
        self.inner.settle(request).await
    }

    async fn hand_over(&self, request: HandOverRequest) -> Result<()> {
        if self.mutant == SimMutant::SessionsAreLeftBehind && request.lanes.is_none() {
            return Ok(());
        }
        self.inner.hand_over(request).await
    }
}

/// Hands entries on without their lane and its owner.
pub(super) struct AnonymousSink(pub(super) Arc<dyn Sink>);

#[async_trait]
impl Sink for AnonymousSink {
    fn capabilities(&self) -> SinkCapabilities {
        self.0.capabilities()
    }

    async fn deliver(&self, batch: &[Entry], report: &dyn Report) {
        let anonymous = |entry: &Entry| {
            let mut entry = entry.clone();
            (entry.lane, entry.fence) = (None, Fence::NONE);
            entry
        };
        let batch: Vec<Entry> = batch.iter().map(anonymous).collect();
        self.0.deliver(&batch, report).await;
    }
}

/// Says that a failure stops what follows it, where it does not.
pub(super) struct BoastfulSink(pub(super) Arc<dyn Sink>);

#[async_trait]
impl Sink for BoastfulSink {
    fn capabilities(&self) -> SinkCapabilities {
        let mut capabilities = self.0.capabilities();
        capabilities.ordered_prefix = true;
        capabilities
    }

    async fn deliver(&self, batch: &[Entry], report: &dyn Report) {
        self.0.deliver(batch, report).await;
    }
}
