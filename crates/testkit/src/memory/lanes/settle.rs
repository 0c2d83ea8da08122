//! Recording what came of entries that a lane handed out.

use pillarbox_core::port::{LaneSettleRequest, LaneSettlement, Settled, Verdict};
use pillarbox_core::{Action, Result, Timestamp};

use super::{is_unsettled, lane_of_entry};
use crate::memory::mutant::Mutant;
use crate::memory::state::State;

impl State {
    /// The whole batch in one step: every verdict that the session may give is recorded, or, when a death cannot be
    /// audited, none is.
    pub(super) fn settle_lanes(&mut self, request: LaneSettleRequest, now: Timestamp) -> Result<Settled> {
        let may_settle: Vec<bool> =
            request.settlements.iter().map(|settlement| self.may_settle(&request, settlement)).collect();
        let is_death = |settlement: &LaneSettlement| matches!(settlement.verdict, Verdict::Dead { .. });
        self.check_audit(
            request.settlements.iter().zip(&may_settle).any(|(one, may)| *may && is_death(one)),
        )?;

        let mut settled = Settled::default();
        for (settlement, may_settle) in request.settlements.into_iter().zip(may_settle) {
            if !may_settle {
                settled.fenced.push(settlement.held);
                continue;
            }
            settled.accepted += 1;
            let LaneSettlement { held, lane: _, hint: _, attempts, verdict } = settlement;
            match verdict {
                Verdict::Delivered => {
                    self.spend(held.seq, attempts, now);
                    self.deliver(held.seq, request.keep, now);
                }
                Verdict::Retry { after, failure, .. } => {
                    self.spend(held.seq, attempts, now);
                    self.retry(held.seq, now.saturating_add(after), failure);
                }
                Verdict::Dead { failure, .. } => {
                    self.spend(held.seq, attempts, now);
                    self.bury(held.seq, &request.owner, failure, now);
                }
                // Nothing was written when it was handed out, so there is nothing to take back.
                Verdict::Release { failure: Some(failure), .. } => {
                    if let Some(row) = self.rows.get_mut(&held.seq) {
                        row.entry.last_error = Some(failure);
                    }
                }
                Verdict::Release { failure: None, .. } | Verdict::Park { .. } => {}
            }
        }
        Ok(settled)
    }

    /// Whether the session holds the entry's lane under this fence, and the entry waits for this verdict: it is not
    /// settled, and this is its next attempt: a verdict that comes late may belong to an earlier attempt, or
    /// to one before a requeue.
    fn may_settle(&self, request: &LaneSettleRequest, settlement: &LaneSettlement) -> bool {
        let Some(row) = self.rows.get(&settlement.held.seq) else { return false };
        // A second end is refused by the status; a second retry only by the attempts.
        let is_retry = matches!(settlement.verdict, Verdict::Retry { .. });
        let waits = row.entry.route == request.route
            && is_unsettled(&row.entry)
            && (!is_retry || row.entry.attempts + 1 == settlement.attempts);
        let lane = self.lanes.get(&request.route).and_then(|table| table.lane(lane_of_entry(&row.entry)));
        let holds = lane
            .is_some_and(|lane| lane.session == Some(request.session) && lane.fence == settlement.held.fence);
        waits && (holds || self.is(Mutant::LaneSettleIgnoresFence))
    }

    /// The attempt that was in flight, counted as it is settled.
    fn spend(&mut self, seq: i64, attempts: u32, now: Timestamp) {
        let Some(row) = self.rows.get_mut(&seq) else { return };
        row.step(Action::Claim);
        row.entry.attempts = row.entry.attempts.max(attempts);
        row.entry.last_attempt_at = Some(now);
    }
}
