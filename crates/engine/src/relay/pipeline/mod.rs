//! The loop behind every run of a relay: one future that claims, delivers, settles, renews and reaps at once.

mod claiming;
mod flight;
mod probing;
mod settling;
mod stopping;
mod suspects;
mod tending;

use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use pillarbox_core::port::{Claim, Company, Extended, Reaped};
use pillarbox_core::{Error, ErrorKind, Held, Result, Retry};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep_until};

use crate::circuit::Circuit;
use crate::feed::{Conclusion, Nature, Recorded};
use crate::random;
use crate::tally::Tally;
use crate::verdict::Ended;

use claiming::Claims;
use flight::Flight;
use probing::Probe;
use settling::Settles;
use suspects::Suspects;
use tending::Tends;

use super::Relay;
use super::batch::{BatchId, Reported};

/// When a run ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// After one batch.
    Once,
    /// When nothing is due.
    Drained,
    /// When it was asked to stop.
    Stopped,
}

/// Something that was under way and is done.
enum Completion {
    Claimed { asked: Asked, sent: Instant, result: Result<Claim> },
    Delivered { batch: BatchId, ended: Ended },
    Settled { group: Group, sent: Instant, result: Result<Recorded> },
    Extended { batches: Vec<BatchId>, held: Vec<Held>, sent: Instant, result: Result<Extended> },
    Reaped { sagas: u64, result: Result<Reaped> },
    Prepared(Result<()>),
}

/// What a claim was for.
#[derive(Clone, Copy, Debug)]
struct Asked {
    limit: u32,
    company: Company,
    /// Whether nothing was in flight.
    idle: bool,
}

/// Verdicts that are sent to the store together.
struct Group {
    conclusions: Vec<Conclusion>,
    /// How often they failed together.
    failures: u32,
}

type Underway<'a> = FuturesUnordered<Pin<Box<dyn Future<Output = Completion> + Send + 'a>>>;

/// Most reports taken in one turn of the loop.
const REPORTS_PER_TURN: usize = 4096;
/// The wait after the first failed call to the store; doubles up to [`STORE_RETRY_MAX`].
const STORE_RETRY_MIN: Duration = Duration::from_millis(50);
const STORE_RETRY_MAX: Duration = Duration::from_secs(5);
/// Failed calls in a row that a run of one batch or a drain puts up with.
const STORE_FAILURES_MAX: u32 = 5;
/// The longest that a call to the store may take; half a lease where that is shorter.
const STORE_CALL_MAX: Duration = Duration::from_secs(30);
/// Most entries of one reap.
const REAP_LIMIT: u32 = 1_000;

/// The state of one run.
///
/// **Invariant:** at most one claim, one extend, one reap and one reading ahead are under way, and at most as many
/// settles as the feed allows.
pub(crate) struct Pipeline<'a> {
    relay: &'a Relay,
    nature: Nature,
    until: Until,
    tally: Tally,
    underway: Underway<'a>,
    reports: UnboundedSender<Reported>,
    reported: Option<UnboundedReceiver<Reported>>,

    flight: Flight,
    circuit: Circuit,
    suspects: Suspects,
    /// The batch that the destination is probed with.
    probe: Option<Probe>,
    random: u64,
    claims: Claims,
    settles: Settles,
    tends: Tends,
    store_failures: u32,
    grace_end: Option<Instant>,
    fatal: Option<Error>,
}

impl<'a> Pipeline<'a> {
    pub(crate) fn new(relay: &'a Relay, until: Until) -> Self {
        let options = &relay.options;
        let now = Instant::now();
        let (reports, reported) = unbounded_channel();
        Self {
            relay,
            nature: relay.feed.nature(),
            until,
            tally: Tally::default(),
            underway: FuturesUnordered::new(),
            reports,
            reported: Some(reported),
            flight: Flight::default(),
            circuit: Circuit::new(options.circuit),
            suspects: Suspects::default(),
            probe: None,
            random: relay.seed,
            claims: Claims::new(options, until, now),
            settles: Settles::new(now),
            tends: Tends::new(now),
            store_failures: 0,
            grace_end: None,
            fatal: None,
        }
    }

    /// Claims no more than this; `None`: any number.
    pub(crate) fn at_most(mut self, entries: Option<u64>) -> Self {
        self.claims.left = entries;
        self.claims.enough = entries == Some(0);
        self
    }

    pub(crate) async fn run(mut self, shutdown: impl Future<Output = ()> + Send) -> Result<Tally> {
        let started = Instant::now();
        let Some(mut reported) = self.reported.take() else { return Ok(self.tally) };
        let mut shutdown = pin!(shutdown);
        let mut turn = Vec::new();
        loop {
            self.start_what_is_due();
            self.show(started);
            if self.is_done() {
                break;
            }
            let timer = self.next_timer();
            tokio::select! {
                biased;
                _ = reported.recv_many(&mut turn, REPORTS_PER_TURN) => {
                    for report in turn.drain(..) {
                        self.on_report(report);
                    }
                }
                Some(step) = self.underway.next(), if !self.underway.is_empty() => {
                    // Reports that were sent before the delivery ended must not count as missing.
                    while let Ok(report) = reported.try_recv() {
                        self.on_report(report);
                    }
                    self.on_step(step);
                }
                () = &mut shutdown, if self.grace_end.is_none() => self.stop(),
                () = self.relay.shared.wake.notified(), if self.until == Until::Stopped => self.on_wake(),
                () = sleep_until(timer) => {}
            }
        }
        self.tally.elapsed = started.elapsed();
        match self.fatal {
            Some(error) => Err(error),
            None => Ok(self.tally),
        }
    }

    fn start_what_is_due(&mut self) {
        let now = Instant::now();
        self.stop_overdue(now);
        self.end_grace(now);
        self.follow_confirmed(now);
        self.start_settle(now);
        self.start_extend(now);
        self.start_reap(now);
        self.start_claim(now);
        self.start_prepare();
    }

    fn on_step(&mut self, step: Completion) {
        match step {
            Completion::Claimed { asked, sent, result } => self.on_claimed(asked, sent, result),
            Completion::Delivered { batch, ended } => self.on_delivered(batch, ended),
            Completion::Settled { group, sent, result } => self.on_settled(group, sent, result),
            Completion::Extended { batches, held, sent, result } => {
                self.on_extended(&batches, &held, sent, result)
            }
            Completion::Reaped { sagas, result } => self.on_reaped(sagas, result),
            Completion::Prepared(result) => self.on_prepared(result),
        }
    }

    fn on_wake(&mut self) {
        self.claims.poll.found();
        self.claims.woken = true;
        // A store that fails is not asked more often because more is staged: it gets the wait that it needs.
        if self.store_failures == 0 {
            self.claims.at = Instant::now();
        }
    }

    /// Nothing is under way and nothing more is wanted.
    fn is_done(&self) -> bool {
        let wanted = match self.until {
            Until::Stopped => self.grace_end.is_none() && self.fatal.is_none(),
            Until::Once | Until::Drained => !self.claims.enough && self.fatal.is_none(),
        };
        !wanted && self.underway.is_empty() && self.flight.places.is_empty()
    }

    /// The next moment at which work is due without an event from outside.
    fn next_timer(&self) -> Instant {
        let now = Instant::now();
        let margin = self.relay.options.lease_margin();
        let delivering = self.flight.batches.values().filter(|batch| batch.delivering.is_some());
        [
            self.claim_wanted_at(now),
            self.settle_wanted_at(),
            (!self.flight.places.is_empty() && !self.tends.extending).then_some(self.tends.extend_at),
            (self.wants_reap() && !self.tends.reaping).then_some(self.tends.reap_at),
            self.suspects.waits_until(self.relay.options.lease),
            self.grace_end.filter(|end| *end > now),
        ]
        .into_iter()
        .flatten()
        .chain(delivering.map(|batch| batch.stop_at(margin)))
        .min()
        .unwrap_or(now + Duration::from_secs(3600))
    }

    /// A number for jitter: the same seed gives the same run.
    fn random(&mut self) -> u64 {
        random::next(&mut self.random)
    }

    fn show(&self, started: Instant) {
        let now = Instant::now();
        self.relay.observer.tell(|observer| {
            observer.state(self.circuit.state(now), self.flight.places.len());
        });
        self.relay.shared.update(|state| {
            let circuit = self.circuit.state(now);
            // Rarely different, so that an outage's text is not copied at every turn.
            if state.circuit != circuit || state.down.as_ref() != self.circuit.outage() {
                state.circuit = circuit;
                state.down = self.circuit.outage().cloned();
                self.relay.shared.turned.notify_one();
            }
            state.in_flight = self.flight.places.len();
            state.tally = Tally { elapsed: started.elapsed(), ..self.tally };
            if self.store_failures == 0 {
                state.stalled = None;
            }
        });
    }
}

/// Bounds a call to the store: one that hangs must not hold the pipeline past its leases.
async fn bounded<T>(lease: Duration, call: impl Future<Output = Result<T>> + Send) -> Result<T> {
    let limit = (lease / 2).min(STORE_CALL_MAX);
    tokio::time::timeout(limit, call).await.unwrap_or_else(|_| {
        let error = Error::new(ErrorKind::Timeout, format!("no answer from the store within {limit:?}"));
        Err(error.with_retry(Retry::Unknown))
    })
}
