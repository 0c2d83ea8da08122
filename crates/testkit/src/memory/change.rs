//! What operators change in memory: entries by hand, and whether a route is paused.

use std::collections::BTreeSet;

use pillarbox_core::limits::LIST_MAX;
use pillarbox_core::port::{
    Changed, Effect, Pause, PauseChange, PauseRequest, PauseTo, Selection, SelectionRequest, Skip, Skipped,
};
use pillarbox_core::{Action, AuditKind, Entry, Reference, Result, SagaId, Status, Timestamp};

use super::admin::is_meant;
use super::mutant::Mutant;
use super::state::State;

/// What is done to entries by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Requeue,
    Discard,
    Hasten,
    Cancel,
}

impl Verb {
    fn action(self) -> Action {
        match self {
            Self::Requeue => Action::Requeue,
            Self::Discard => Action::Discard,
            Self::Hasten => Action::Hasten,
            Self::Cancel => Action::Cancel,
        }
    }

    fn audited_as(self) -> AuditKind {
        match self {
            Self::Requeue => AuditKind::Requeued,
            Self::Discard => AuditKind::Discarded,
            Self::Hasten => AuditKind::Hastened,
            Self::Cancel => AuditKind::Cancelled,
        }
    }
}

impl State {
    /// Why this entry cannot be changed so; `None`: it can. `seen` is as an operator sees it.
    fn refusal(&self, verb: Verb, seen: &Entry, now: Timestamp) -> Option<Skip> {
        let stored = self.rows.get(&seen.seq).map_or(seen.status, |row| row.entry.status);
        if stored.after(verb.action()).is_none() {
            return Some(Skip::Standing(seen.standing()));
        }
        match verb {
            Verb::Discard | Verb::Cancel
                if !self.is(Mutant::DiscardTakesSteps) && self.open_saga(seen).is_some() =>
            {
                self.open_saga(seen).map(Skip::OpenSaga)
            }
            Verb::Hasten if seen.due_at.is_none_or(|due| due <= now) => Some(Skip::Due),
            Verb::Cancel if self.is_lane_held(seen) && !self.is(Mutant::CancelIgnoresReaders) => {
                Some(Skip::LaneHeld)
            }
            _ => None,
        }
    }

    /// The saga of a step, if that has not ended.
    fn open_saga(&self, entry: &Entry) -> Option<SagaId> {
        let id = entry.group_id.as_deref().filter(|_| entry.is_step())?.parse().ok()?;
        self.sagas.get(&id).filter(|saga| saga.ended_at.is_none()).map(|_| id)
    }

    /// Which entries are to be changed, and what is told of the others.
    fn select(&self, request: &SelectionRequest, verb: Verb, now: Timestamp) -> (Vec<i64>, Changed) {
        let mut changed = Changed::default();
        let mut picked = vec![];
        let limit = request.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let (ids, meant): (BTreeSet<_>, Vec<Entry>) = match &request.selection {
            Selection::Ids(ids) => {
                let ids: BTreeSet<_> = ids.iter().copied().collect();
                let named = self.seen(now).filter(|entry| ids.contains(&entry.event_id)).collect();
                (ids, named)
            }
            Selection::Matching(filter) => {
                // What can never be changed so is not meant; what only cannot be now is.
                let meant = self.seen(now).filter(|entry| {
                    let refused = self.refusal(verb, entry, now);
                    is_meant(filter, entry)
                        && matches!(refused, None | Some(Skip::LaneHeld | Skip::OpenSaga(_)))
                });
                (BTreeSet::new(), meant.take(limit).collect())
            }
        };
        changed.missing =
            ids.iter().filter(|id| !meant.iter().any(|entry| entry.event_id == **id)).copied().collect();
        let dead = meant.iter().filter(|entry| entry.status == Status::Dead);
        let sagas: BTreeSet<SagaId> = dead.filter_map(|entry| self.open_saga(entry)).collect();
        changed.sagas = sagas.into_iter().take(usize::try_from(LIST_MAX).unwrap_or(usize::MAX)).collect();
        for entry in &meant {
            changed.cursor = Some(entry.seq);
            match self.refusal(verb, entry, now) {
                None => picked.push(entry.seq),
                Some(why) => {
                    changed.skip(Skipped { event_id: entry.event_id, route: entry.route.clone(), why });
                }
            }
        }
        changed.changed = picked.len() as u64;
        (picked, changed)
    }

    pub(super) fn change(
        &mut self,
        request: &SelectionRequest,
        verb: Verb,
        now: Timestamp,
    ) -> Result<Changed> {
        let (picked, changed) = self.select(request, verb, now);
        if request.effect == Effect::DryRun {
            return Ok(changed);
        }
        self.check_audit(!picked.is_empty())?;
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
        let paused = self.paused.contains_key(&request.route);
        if paused == (request.to == PauseTo::Paused) {
            return Ok(PauseChange::Already);
        }
        self.check_audit(true)?;
        let kind = match request.to {
            PauseTo::Paused => AuditKind::RoutePaused,
            PauseTo::Running => AuditKind::RouteResumed,
        };
        let whose = (Some(request.route.clone()), None);
        self.push_audit(now, kind, &request.actor, whose, request.reason.clone());
        if request.to == PauseTo::Paused {
            let pause = Pause { at: now, actor: request.actor, reason: request.reason };
            self.paused.insert(request.route, pause);
        } else {
            self.paused.remove(&request.route);
        }
        Ok(PauseChange::Changed)
    }
}
