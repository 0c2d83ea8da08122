//! A store on which every call can fail before its effect, after it, late, or never.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_core::port::{
    Claim, ClaimRequest, Clock, ExtendRequest, Extended, ReapRequest, Reaped, SettleRequest, Settled, Store,
    Undecodable, Verdict,
};
use pillarbox_core::{Entry, Failure, FailureKind, Held, Result, Status};

use super::super::fault::Fault;
use super::super::history::{Happened, Settling};
use super::super::rng::Rng;
use super::weather::{Log, Weather};
use super::{Chaos, Gate};
use pillarbox_testkit::MemoryStore;

/// Wraps a store: faults by the weather, and every effect written down when it takes place.
///
/// One layer belongs to one relay: the relay that a fault kills or freezes is its own.
pub(crate) struct ChaosStore {
    weather: Weather,
    /// The same store, to look at rows.
    store: MemoryStore,
    inner: Arc<dyn Store>,
}

impl ChaosStore {
    /// Puts the weather between a relay and its store.
    pub(crate) fn new(
        inner: Arc<dyn Store>,
        store: MemoryStore,
        chaos: Chaos,
        gate: Gate,
        who: &str,
        rng: Rng,
    ) -> Self {
        Self { weather: Weather::new(chaos, gate, who, rng), store, inner }
    }
}

#[async_trait]
impl Store for ChaosStore {
    async fn claim(&self, request: ClaimRequest) -> Result<Claim> {
        let fate = self.weather.draw();
        let (inner, log) = (Arc::clone(&self.inner), self.weather.log.clone());
        let effect = async move {
            let max_attempts = request.max_attempts;
            let claim = inner.claim(request).await?;
            log.claimed(&claim, max_attempts);
            Ok(claim)
        };
        let mut claim = self.weather.meet(fate, effect).await?;
        for Held { seq, fence } in claim.entries.iter().map(Entry::held) {
            self.weather.log.record(Happened::Told { seq, fence: fence.0 });
        }
        self.weather.count(!claim.entries.is_empty());
        let mut rng = self.weather.rng();
        if self.weather.log.chaos.strikes(&mut rng, Fault::UndecodableRow)
            && let Some(index) = rng.index(claim.entries.len())
        {
            let entry = claim.entries.remove(index);
            let failure = Failure::new(FailureKind::Undecodable, "headers", "the headers cannot be read");
            let event_id = Some(entry.event_id);
            claim.undecodable.push(Undecodable { held: entry.held(), event_id, failure });
        }
        Ok(claim)
    }

    async fn extend(&self, request: ExtendRequest) -> Result<Extended> {
        let fate = self.weather.draw_on(&request.held);
        let (inner, log) = (Arc::clone(&self.inner), self.weather.log.clone());
        let effect = async move {
            let extended = inner.extend(request.clone()).await?;
            log.extended(&request, &extended);
            Ok(extended)
        };
        let extended = self.weather.meet(fate, effect).await?;
        self.weather.count(false);
        Ok(extended)
    }

    async fn settle(&self, request: SettleRequest) -> Result<Settled> {
        let held: Vec<Held> = request.settlements.iter().map(|settlement| settlement.held).collect();
        let fate = self.weather.draw_on(&held);
        for Held { seq, fence } in held {
            self.weather.log.record(Happened::SettleSent { seq, fence: fence.0 });
        }
        let (inner, log) = (Arc::clone(&self.inner), self.weather.log.clone());
        let effect = async move {
            let settled = inner.settle(request.clone()).await?;
            log.settled(&request, &settled);
            Ok(settled)
        };
        let settled = self.weather.meet(fate, effect).await?;
        self.weather.count(true);
        Ok(settled)
    }

    async fn reap(&self, request: ReapRequest) -> Result<Reaped> {
        let fate = self.weather.draw();
        let (inner, store, log) = (Arc::clone(&self.inner), self.store.clone(), self.weather.log.clone());
        let effect = async move {
            let reaped = inner.reap(request).await?;
            log.sessions_reaped(&store.entries(), reaped.lane_sessions);
            if reaped.stale > 0 || !reaped.dead.is_empty() {
                log.reaped(&store.entries());
            }
            Ok(reaped)
        };
        let reaped = self.weather.meet(fate, effect).await?;
        self.weather.count(false);
        Ok(reaped)
    }
}

impl Log {
    fn claimed(&self, claim: &Claim, route_max_attempts: u32) {
        for entry in &claim.entries {
            {
                let mut state = self.chaos.lock();
                state.in_flight.insert(entry.seq);
                state.attempts.insert(entry.seq, entry.attempts);
            }
            self.record(Happened::Granted {
                seq: entry.seq,
                id: entry.event_id,
                fence: entry.fence.0,
                until: entry.due_at.map_or(i64::MIN, |until| self.chaos.db_millis(until)),
                attempts: entry.attempts,
                max_attempts: entry.max_attempts.unwrap_or(route_max_attempts),
            });
        }
    }

    fn extended(&self, request: &ExtendRequest, extended: &Extended) {
        let fenced: BTreeSet<Held> = extended.fenced.iter().copied().collect();
        let until = self.chaos.db_millis(self.chaos.clock().now().saturating_add(request.lease));
        for held in &request.held {
            let accepted = !fenced.contains(held);
            self.record(Happened::Extended { seq: held.seq, fence: held.fence.0, until, accepted });
        }
    }

    fn settled(&self, request: &SettleRequest, settled: &Settled) {
        let fenced: BTreeSet<Held> = settled.fenced.iter().copied().collect();
        for settlement in &request.settlements {
            let Held { seq, fence } = settlement.held;
            let accepted = !fenced.contains(&settlement.held);
            let verdict = (&settlement.verdict).into();
            if accepted {
                let mut state = self.chaos.lock();
                state.in_flight.remove(&seq);
                if verdict == Settling::Release {
                    let known = state.attempts.entry(seq).or_default();
                    *known = known.saturating_sub(1);
                }
            }
            let due_micros = match settlement.verdict {
                Verdict::Retry { after, .. } | Verdict::Park { after, .. } => {
                    Some(self.chaos.clock().now().saturating_add(after).as_micros())
                }
                _ => None,
            };
            self.record(Happened::Settled { seq, fence: fence.0, due_micros, verdict, accepted });
        }
    }

    /// A reap by rows buries sessions too, before it looks at rows.
    fn sessions_reaped(&self, rows: &[Entry], left: u32) {
        // Where nobody has ever read by lanes there is nothing to tell.
        if self.chaos.lock().lane_lease_until.is_none() {
            return;
        }
        self.taken_over(rows);
        let now_micros = self.chaos.clock().now().as_micros();
        self.record(Happened::SessionsReaped { now_micros, left });
    }

    /// A reap tells how many, not which: what was in flight and is not any more is what it took.
    pub(super) fn reaped(&self, rows: &[Entry]) {
        let in_flight = self.chaos.lock().in_flight.clone();
        for seq in in_flight {
            let status = rows.iter().find(|entry| entry.seq == seq).map(|entry| entry.status);
            if status != Some(Status::InFlight) {
                self.chaos.lock().in_flight.remove(&seq);
                self.record(Happened::Reaped { seq, to: status });
            }
        }
    }
}
