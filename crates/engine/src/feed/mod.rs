//! Where a relay's entries come from, and where what came of them goes.
//!
//! The pipeline has one [`Feed`] and does not ask for its kind: [`rows`] claims entries one by one, [`lanes`] reads them
//! in the order of their keys, and [`sagas`] is rows whose steps move their sagas.

pub(crate) mod lanes;
pub(crate) mod rows;
pub(crate) mod sagas;

use async_trait::async_trait;
use pillarbox_core::port::{
    Claim, ClaimRequest, ExtendRequest, Extended, Keep, ReapRequest, Reaped, Settled, Settlement, Steps,
    Verdict,
};
use pillarbox_core::{Entry, Error, Held, Result, RouteName};
use serde_json::Value;

use crate::observe::Observe;

/// A batch that is kept costs the store more than everything else: the next one need not wait for it.
const SETTLES_MAX: usize = 2;

/// What the pipeline has to know of its feed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nature {
    /// Whether it takes steps of sagas: only if it moves their sagas too.
    pub(crate) steps: Steps,
    /// Whether entries of one key wait for each other, and so for a dead one.
    pub(crate) ordered: bool,
    /// Whether a key goes on as soon as the destination has what it was handed, so that the feed has to be told.
    pub(crate) follows_confirmed: bool,
    /// How many settles may be under way at once.
    pub(crate) settles_max: usize,
}

impl Nature {
    const ROWS: Self =
        Self { steps: Steps::Leave, ordered: false, follows_confirmed: false, settles_max: SETTLES_MAX };
}

/// What became of one claimed entry.
#[derive(Clone, Debug)]
pub(crate) struct Conclusion {
    pub(crate) held: Held,
    pub(crate) verdict: Verdict,
    /// Set if it may be a step of a saga.
    pub(crate) step: Option<StepEnd>,
}

/// What only its saga needs to know.
#[derive(Clone, Debug)]
pub(crate) struct StepEnd {
    /// What the step passes on to later ones.
    pub(crate) data: Option<Value>,
}

impl Conclusion {
    pub(crate) fn new(entry: &Entry, verdict: Verdict, data: Option<Value>) -> Self {
        let step = entry.group_id.is_some().then_some(StepEnd { data });
        Self { held: entry.held(), verdict, step }
    }

    fn settlement(self) -> Settlement {
        Settlement { held: self.held, verdict: self.verdict }
    }
}

/// Conclusions to be recorded.
pub(crate) struct Recording {
    pub(crate) owner: String,
    pub(crate) conclusions: Vec<Conclusion>,
    pub(crate) keep: Keep,
}

/// What was recorded.
#[derive(Default)]
pub(crate) struct Recorded {
    /// Which claims did not stand any more.
    pub(crate) fenced: Vec<Held>,
    /// What could not be recorded yet, and why.
    pub(crate) left: Option<(Vec<Held>, Error)>,
}

impl From<Settled> for Recorded {
    fn from(settled: Settled) -> Self {
        Self { fenced: settled.fenced, left: None }
    }
}

/// Gives entries to one relay, and takes what came of them.
#[async_trait]
pub(crate) trait Feed: Send + Sync {
    fn nature(&self) -> Nature;

    /// Hands out entries under a lease.
    async fn claim(&self, request: ClaimRequest) -> Result<Claim>;

    /// Reads on while the sink is at what was handed out.
    async fn prepare(&self, _limit: usize) -> Result<()> {
        Ok(())
    }

    /// Whether the entries that a claim was short of, this many, would be there after a further read.
    fn is_worth_preparing(&self, _lacking: usize) -> bool {
        false
    }

    /// The destination has these: what waits for them may go.
    fn confirmed(&self, _held: &[Held]) {}

    /// Whether this many entries that waited for others can go now.
    fn has_followers(&self, _enough: usize) -> bool {
        false
    }

    /// Records what came of entries.
    async fn settle(&self, recording: Recording) -> Result<Recorded>;

    /// Prolongs leases.
    async fn extend(&self, request: ExtendRequest) -> Result<Extended>;

    /// Takes back what others have left. `at_work` is what this relay has not given up.
    async fn reap(&self, request: ReapRequest, at_work: Vec<Held>) -> Result<Reaped>;

    /// How many sagas of the route wait for another relay, because this feed leaves their steps alone.
    async fn sagas_left_alone(&self, route: &RouteName) -> Result<u64>;

    /// Tells the observer what only this feed knows of itself. Called at each heartbeat.
    fn tell(&self, _observer: &dyn Observe) {}

    /// The run has ended: nothing is held any more, so that others need not wait for a lease.
    async fn leave(&self) -> Result<()> {
        Ok(())
    }
}
