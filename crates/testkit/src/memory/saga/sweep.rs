//! Bringing sagas up to date with what happened to their entries elsewhere.

use pillarbox_core::limits::OPEN_SAGAS_MAX;
use pillarbox_core::port::{Keep, SweepRequest};
use pillarbox_core::{
    FailureKind, Result, RouteName, SagaId, SagaRecord, SagaWork, Status, StepSeen, Timestamp,
};

use super::MemorySagas;
use crate::memory::mutant::Mutant;
use crate::memory::state::State;

impl MemorySagas {
    pub(super) async fn sweep_one(
        &self,
        id: SagaId,
        request: &SweepRequest,
        now: Timestamp,
    ) -> Result<Option<bool>> {
        loop {
            let Some(work) = self.shared.lock().plan_sweep(id, now)? else { return Ok(None) };
            let ended = work.moves.ended;
            let tx = self.hook(std::slice::from_ref(&work)).await?;
            let applied = tx.commit_with(|state| {
                if !state.still_holds(&work) {
                    return Ok(None);
                }
                state.check_audit(!work.moves.audit.is_empty())?;
                state.apply(work, &request.owner, Keep::UntilPurged, now).map(Some)
            })?;
            if applied.is_some() {
                return Ok(Some(ended));
            }
        }
    }
}

impl State {
    /// Sagas of a route that have not ended.
    pub(in crate::memory) fn open_sagas(&self, route: &RouteName) -> u64 {
        let open = self.sagas.values().filter(|saga| saga.ended_at.is_none() && saga.route == route.as_str());
        OPEN_SAGAS_MAX.min(open.count() as u64)
    }

    /// Sagas that do not know how many of their entries are dead, and those whose time has come, in order.
    pub(super) fn sagas_to_sweep(&self, request: &SweepRequest, now: Timestamp) -> Vec<SagaId> {
        let after = request.after.filter(|_| !self.is(Mutant::SweepStartsOver));
        let behind = self.sagas.iter().filter(|(id, _)| Some(**id) > after);
        let stale = behind.filter(|(id, saga)| {
            let id = id.to_string();
            let dead = self.rows.values().filter(|row| {
                row.entry.status == Status::Dead && row.entry.group_id.as_deref() == Some(id.as_str())
            });
            i64::try_from(dead.count()).unwrap_or(i64::MAX) != saga.dead
                || saga.due_at.is_some_and(|due| due <= now)
        });
        stale.map(|(id, _)| *id).take(usize::try_from(request.limit).unwrap_or(usize::MAX)).collect()
    }

    /// What would become of it; `None`: nothing.
    fn plan_sweep(&self, id: SagaId, now: Timestamp) -> Result<Option<SagaWork>> {
        let Some(columns) = self.sagas.get(&id) else { return Ok(None) };
        let saga = SagaRecord::read(columns.clone())?;
        let mut seen = self.entries_of(&saga);
        if self.is(Mutant::DeadlineIgnoresLostLease) {
            let lost = seen.iter_mut().filter(|entry| entry.status == Status::Retrying);
            for failure in lost.filter_map(|entry| entry.last_error.as_mut()) {
                if failure.kind == FailureKind::LeaseExpired {
                    failure.kind = FailureKind::Failed;
                }
            }
        }
        SagaWork::sweep(saga, seen, now)
    }

    pub(super) fn entries_of(&self, saga: &SagaRecord) -> Vec<StepSeen> {
        let ids = saga.event_ids();
        let of = self.rows.values().map(|row| &row.entry).filter(|entry| ids.contains(&entry.event_id));
        of.map(StepSeen::from).collect()
    }
}
