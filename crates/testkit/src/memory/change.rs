//! What operators change in memory: entries by hand, and whether a route is paused.

use pillarbox_core::limits::AUDIT_TOLD_MAX;
use pillarbox_core::port::shared::{Candidate, Verb, sift};
use pillarbox_core::port::{
    Changed, Effect, Pause, PauseChange, PauseRequest, PauseTo, Selection, SelectionRequest, Skip,
};
use pillarbox_core::{Entry, Reference, Result, SagaId, Status, Timestamp};

use super::admin::is_meant;
use super::mutant::Mutant;
use super::state::State;

impl State {
    /// An entry as a change looks at it; `seen` is as an operator sees it.
    fn candidate(&self, seen: &Entry, now: Timestamp) -> Candidate {
        Candidate {
            seq: seen.seq,
            event_id: seen.event_id,
            route: seen.route.clone(),
            status: self.rows.get(&seen.seq).map_or(seen.status, |row| row.entry.status),
            standing: seen.standing(),
            lane_held: self.is_lane_held(seen) && !self.is(Mutant::CancelIgnoresReaders),
            due: seen.due_at.is_none_or(|due| due <= now),
            open_saga: self.open_saga(seen).filter(|_| !self.is(Mutant::DiscardTakesSteps)),
        }
    }

    /// The saga of a step, if that has not ended.
    fn open_saga(&self, entry: &Entry) -> Option<SagaId> {
        let id = entry.group_id.as_deref().filter(|_| entry.is_step())?.parse().ok()?;
        self.sagas.get(&id).filter(|saga| saga.ended_at.is_none()).map(|_| id)
    }

    /// Which entries are to be changed, and the report about the others.
    fn select(&self, request: &SelectionRequest, verb: Verb, now: Timestamp) -> Result<(Vec<i64>, Changed)> {
        let limit = request.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let all = self.seen(now).map(|entry| (self.candidate(&entry, now), entry));
        let (ids, meant): (_, Vec<Candidate>) = match &request.selection {
            Selection::Ids(ids) => {
                let named = all.filter(|(_, entry)| ids.contains(&entry.event_id));
                (Some(&ids[..]), named.map(|(candidate, _)| candidate).collect())
            }
            Selection::Matching(filter) => {
                // What can never be changed so is not meant; what only cannot be now is.
                let meant = all.filter(|(candidate, entry)| {
                    let refused = verb.refusal(candidate);
                    is_meant(filter, entry)
                        && matches!(refused, None | Some(Skip::LaneHeld | Skip::OpenSaga(_)))
                });
                (None, meant.take(limit).map(|(candidate, _)| candidate).collect())
            }
        };
        sift(meant.into_iter().map(Ok), verb, ids)
    }

    pub(super) fn change(
        &mut self,
        request: &SelectionRequest,
        verb: Verb,
        now: Timestamp,
    ) -> Result<Changed> {
        let (picked, mut changed) = self.select(request, verb, now)?;
        if request.effect == Effect::DryRun {
            return Ok(changed);
        }
        self.check_audit(!picked.is_empty())?;
        let told_max = usize::try_from(AUDIT_TOLD_MAX).unwrap_or(usize::MAX);
        for seq in &picked {
            let Some(row) = self.rows.get(seq) else { continue };
            let whose = (Some(row.entry.route.clone()), Some(row.entry.event_id));
            let group = row.entry.group_id.as_deref().and_then(|group| group.parse().ok());
            let saga = group.and_then(|id| self.sagas.get(&id).map(|saga| (id, saga.clone())));
            let record = self.push_audit(now, verb.audited_as(), &request.actor, whose, String::new());
            if let Some((id, saga)) = saga {
                record.saga_id = Some(id);
                record.subject = Some(Reference::new(saga.subject_kind, saga.subject_value));
            }
            if changed.audit.len() < told_max {
                changed.audit.push(record.clone());
            }
        }
        for seq in picked {
            self.revise(seq);
            let Some(row) = self.rows.get_mut(&seq) else { continue };
            row.step(verb.action());
            row.entry.due_at = None;
            match verb {
                Verb::Requeue => {
                    (row.entry.attempts, row.entry.crashes) = (0, 0);
                    row.entry.settled_at = None;
                }
                Verb::Discard | Verb::Cancel => row.entry.settled_at = Some(now),
                Verb::Hasten => {}
            }
            debug_assert!(row.entry.status != Status::InFlight);
        }
        Ok(changed)
    }

    pub(super) fn set_pause(&mut self, request: PauseRequest, now: Timestamp) -> Result<PauseChange> {
        if request.change(self.paused.contains_key(&request.route)) == PauseChange::Already {
            return Ok(PauseChange::Already);
        }
        self.check_audit(true)?;
        let whose = (Some(request.route.clone()), None);
        self.push_audit(now, request.to.audited_as(), &request.actor, whose, request.reason.clone());
        if request.to == PauseTo::Paused {
            let pause = Pause { at: now, actor: request.actor, reason: request.reason };
            self.paused.insert(request.route, pause);
        } else {
            self.paused.remove(&request.route);
        }
        Ok(PauseChange::Changed)
    }
}
