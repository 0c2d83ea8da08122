//! Bringing sagas up to date with what happened to their entries elsewhere.

use pillarbox_core::port::{Keep, SweepRequest, Swept};
use pillarbox_core::{Result, SagaId, SagaRecord, SagaWork, Status, StepSeen, Timestamp};

use super::MemorySagas;
use super::settle::seen_of;
use crate::memory::state::State;

impl MemorySagas {
    pub(super) async fn sweep_one(
        &self,
        id: SagaId,
        request: &SweepRequest,
        now: Timestamp,
        swept: &mut Swept,
    ) -> Result<()> {
        loop {
            let Some(work) = self.shared.lock().plan_sweep(id, now)? else { return Ok(()) };
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
                swept.changed += 1;
                swept.ended.extend(ended.then_some(id));
                return Ok(());
            }
        }
    }
}

impl State {
    /// Sagas that do not know how many of their entries are dead, and those whose time has come.
    pub(super) fn sagas_to_sweep(&self, limit: u32, now: Timestamp) -> Vec<SagaId> {
        let stale = self.sagas.iter().filter(|(id, saga)| {
            let id = id.to_string();
            let dead = self.rows.values().filter(|row| {
                row.entry.status == Status::Dead && row.entry.group_id.as_deref() == Some(id.as_str())
            });
            i64::try_from(dead.count()).unwrap_or(i64::MAX) != saga.dead
                || saga.due_at.is_some_and(|due| due <= now)
        });
        stale.map(|(id, _)| *id).take(usize::try_from(limit).unwrap_or(usize::MAX)).collect()
    }

    /// What would become of it; `None`: nothing.
    fn plan_sweep(&self, id: SagaId, now: Timestamp) -> Result<Option<SagaWork>> {
        let Some(columns) = self.sagas.get(&id) else { return Ok(None) };
        let saga = SagaRecord::read(columns.clone())?;
        let seen = self.entries_of(&saga);
        SagaWork::sweep(saga, seen, now)
    }

    pub(super) fn entries_of(&self, saga: &SagaRecord) -> Vec<StepSeen> {
        let ids = saga.event_ids();
        let of = self.rows.values().map(|row| &row.entry).filter(|entry| ids.contains(&entry.event_id));
        of.map(seen_of).collect()
    }
}
