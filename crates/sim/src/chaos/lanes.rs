//! Lanes on which every call can fail before its effect, after it, late, or never.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use pillarbox_core::port::{
    AttendRequest, Attendance, Clock, FetchRequest, Fetched, HandOverRequest, Head, HeadsRequest,
    IsolateRequest, LaneRead, LaneRow, LaneSettleRequest, Lanes, Passed, PassedRequest, ReadRequest,
    ReapRequest, Reaped, Settled, Undecodable, Verdict,
};
use pillarbox_core::{Entry, Failure, FailureKind, Held, Result};

use super::super::fault::Fault;
use super::super::history::Happened;
use super::super::rng::Rng;
use super::weather::{Log, Weather};
use super::{Chaos, Gate};
use pillarbox_testkit::MemoryStore;

/// Wraps lanes: faults by the weather, and every effect written down when it takes place.
///
/// One layer belongs to one relay: the relay that a fault kills or freezes is its own.
pub(crate) struct ChaosLanes {
    weather: Weather,
    /// The same store, to look at rows.
    store: MemoryStore,
    inner: Arc<dyn Lanes>,
    isolations: AtomicU64,
}

impl ChaosLanes {
    /// Puts the weather between a relay and its lanes.
    pub(crate) fn new(
        inner: Arc<dyn Lanes>,
        store: MemoryStore,
        chaos: Chaos,
        gate: Gate,
        who: &str,
        rng: Rng,
    ) -> Self {
        Self { weather: Weather::new(chaos, gate, who, rng), store, inner, isolations: AtomicU64::new(0) }
    }

    /// Makes one of these entries unreadable, now and then.
    fn spoil(&self, entries: &mut Vec<Entry>, undecodable: &mut Vec<LaneRow>) {
        let mut rng = self.weather.rng();
        let chaos = &self.weather.log.chaos;
        if chaos.draws(&mut rng, Fault::UndecodableRow)
            && let Some(index) = rng.index(entries.len())
        {
            chaos.strike(Fault::UndecodableRow);
            let entry = entries.remove(index);
            let failure = Failure::new(FailureKind::Undecodable, "headers", "the headers cannot be read");
            let row = Undecodable { held: entry.held(), event_id: Some(entry.event_id), failure };
            undecodable.push(LaneRow { lane: entry.lane.unwrap_or(0), row });
        }
    }
}

#[async_trait]
impl Lanes for ChaosLanes {
    async fn attend(&self, request: AttendRequest) -> Result<Attendance> {
        let fate = self.weather.draw();
        let (inner, store, log) = (Arc::clone(&self.inner), self.store.clone(), self.weather.log.clone());
        let effect = async move {
            let attendance = inner.attend(request.clone()).await?;
            log.attended(&request, &attendance, &store);
            Ok(attendance)
        };
        let attendance = self.weather.meet(fate, effect).await?;
        self.weather.count(false);
        Ok(attendance)
    }

    async fn read(&self, request: ReadRequest) -> Result<LaneRead> {
        let fate = self.weather.draw();
        let inner = Arc::clone(&self.inner);
        let mut read = self.weather.meet(fate, async move { inner.read(request).await }).await?;
        self.weather.count(!read.entries.is_empty());
        self.spoil(&mut read.entries, &mut read.undecodable);
        Ok(read)
    }

    async fn passed(&self, request: PassedRequest) -> Result<Passed> {
        let fate = self.weather.draw();
        let inner = Arc::clone(&self.inner);
        let passed = self.weather.meet(fate, async move { inner.passed(request).await }).await?;
        self.weather.count(false);
        Ok(passed)
    }

    async fn fetch(&self, request: FetchRequest) -> Result<Fetched> {
        let fate = self.weather.draw();
        let inner = Arc::clone(&self.inner);
        let mut fetched = self.weather.meet(fate, async move { inner.fetch(request).await }).await?;
        self.weather.count(false);
        self.spoil(&mut fetched.entries, &mut fetched.undecodable);
        Ok(fetched)
    }

    async fn heads(&self, request: HeadsRequest) -> Result<Vec<Head>> {
        let fate = self.weather.draw();
        let inner = Arc::clone(&self.inner);
        let heads = self.weather.meet(fate, async move { inner.heads(request).await }).await?;
        self.weather.count(false);
        Ok(heads)
    }

    async fn isolate(&self, request: IsolateRequest) -> Result<bool> {
        let fate = self.weather.draw();
        let (inner, log) = (Arc::clone(&self.inner), self.weather.log.clone());
        let sent = self.isolations.fetch_add(1, Ordering::Relaxed);
        let effect = async move {
            let known = inner.isolate(request.clone()).await?;
            if known {
                let IsolateRequest { session, only, .. } = request;
                log.record(Happened::Isolated { session: session.to_string(), only, sent });
            }
            Ok(known)
        };
        let known = self.weather.meet(fate, effect).await?;
        self.weather.count(true);
        Ok(known)
    }

    async fn reap_rows(&self, request: ReapRequest) -> Result<Reaped> {
        let fate = self.weather.draw();
        let (inner, store, log) = (Arc::clone(&self.inner), self.store.clone(), self.weather.log.clone());
        let effect = async move {
            let reaped = inner.reap_rows(request).await?;
            if reaped.stale > 0 || !reaped.dead.is_empty() {
                log.reaped(&store.entries());
            }
            Ok(reaped)
        };
        let reaped = self.weather.meet(fate, effect).await?;
        self.weather.count(false);
        Ok(reaped)
    }

    async fn settle(&self, request: LaneSettleRequest) -> Result<Settled> {
        let held: Vec<Held> = request.settlements.iter().map(|settlement| settlement.held).collect();
        let fate = self.weather.draw_on(&held);
        let (inner, log) = (Arc::clone(&self.inner), self.weather.log.clone());
        let effect = async move {
            let settled = inner.settle(request.clone()).await?;
            log.lanes_settled(&request, &settled);
            Ok(settled)
        };
        let settled = self.weather.meet(fate, effect).await?;
        self.weather.count(true);
        Ok(settled)
    }

    async fn hand_over(&self, request: HandOverRequest) -> Result<()> {
        let fate = self.weather.draw();
        let (inner, log) = (Arc::clone(&self.inner), self.weather.log.clone());
        let effect = async move {
            inner.hand_over(request.clone()).await?;
            let HandOverRequest { session, lanes, .. } = request;
            log.record(Happened::HandedOver { session: session.to_string(), lanes });
            Ok(())
        };
        self.weather.meet(fate, effect).await?;
        self.weather.count(false);
        Ok(())
    }
}

impl Log {
    /// What a burial cost comes first: it took place before lanes were shared.
    fn attended(&self, request: &AttendRequest, attendance: &Attendance, store: &MemoryStore) {
        if attendance.buried > 0 {
            self.taken_over(&store.entries());
        }
        let now = self.chaos.clock().now();
        let until = now.saturating_add(request.lease);
        if !attendance.lost {
            let mut state = self.chaos.lock();
            state.lane_lease_until = state.lane_lease_until.max(Some(until));
        }
        self.record(Happened::Attended {
            session: request.session.to_string(),
            now_micros: now.as_micros(),
            until_micros: until.as_micros(),
            lost: attendance.lost,
            buried: attendance.buried,
            lanes: attendance.lanes.iter().map(|held| (held.lane, held.fence.0)).collect(),
        });
    }

    /// A heartbeat reports how many sessions were buried, not what they had in flight: that is what has other
    /// attempts than the history knows of.
    pub(super) fn taken_over(&self, rows: &[Entry]) {
        for row in rows {
            let known = self.chaos.lock().attempts.insert(row.seq, row.attempts).unwrap_or(0);
            if row.attempts != known {
                let (seq, attempts, to) = (row.seq, row.attempts, row.status);
                self.record(Happened::TakenOver { seq, attempts, to });
            }
        }
    }

    fn lanes_settled(&self, request: &LaneSettleRequest, settled: &Settled) {
        let fenced: BTreeSet<Held> = settled.fenced.iter().copied().collect();
        let now = self.chaos.clock().now();
        for settlement in &request.settlements {
            let Held { seq, fence } = settlement.held;
            let accepted = !fenced.contains(&settlement.held);
            if matches!(settlement.verdict, Verdict::Release { .. }) {
                // Its reason is written, and nothing that a check looks at: attempts and state must be as they were.
                continue;
            }
            let attempts = settlement.attempts;
            if accepted {
                let mut state = self.chaos.lock();
                let known = state.attempts.entry(seq).or_default();
                *known = attempts.max(*known);
            }
            let due_micros = match settlement.verdict {
                Verdict::Retry { after, .. } => Some(now.saturating_add(after).as_micros()),
                _ => None,
            };
            self.record(Happened::LaneSettled {
                seq,
                session: request.session.to_string(),
                fence: fence.0,
                attempts,
                due_micros,
                verdict: (&settlement.verdict).into(),
                accepted,
            });
        }
    }
}
