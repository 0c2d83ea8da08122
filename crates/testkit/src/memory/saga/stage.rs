//! Staging a saga.

use async_trait::async_trait;
use pillarbox_core::port::{StageSaga, StagedSaga};
use pillarbox_core::{NewEntry, Result, RouteName, Saga, SagaId, SagaRecord};

use crate::memory::outbox::{MemoryOutbox, row_of};
use crate::memory::state::{Key, Row, State};
use crate::memory::tx::{MemoryTx, Write};

impl MemoryOutbox {
    /// Stages a saga on this route, with the entries of the steps that can run at once.
    ///
    /// # Errors
    /// When the route is out of bounds.
    pub async fn stage_saga(&self, tx: &mut MemoryTx, saga: Saga) -> Result<StagedSaga> {
        tx.check_store(&self.shared)?;
        let route = RouteName::new(self.route.clone())?;
        let now = self.shared.clock.now();
        let fresh = SagaId(self.shared.lock().fresh_id(now).0);
        let id = saga.id().unwrap_or(fresh);
        let subject =
            Key::Subject(saga.name().into(), saga.subject().kind.clone(), saga.subject().value.clone());
        let keys = [Key::Saga(id), subject.clone()];
        let own = tx.sagas_of(&subject);
        let shared = std::sync::Arc::clone(&self.shared);
        let limits = self.limits;
        tx.write(&keys, |state, exists| {
            if exists(state, &keys[0]) {
                return (vec![], Ok(StagedSaga::Duplicate(id)));
            }
            let generation = state.newest_of(&subject).saturating_add(own).saturating_add(1);
            let mut record = SagaRecord::new(saga, id, route.clone(), generation, now);
            let staged = record.start().and_then(|moves| {
                let stamped = moves
                    .stage
                    .into_iter()
                    .map(|event| NewEntry::new(&route, event, id_of(id), shared.stamps.now(), &limits));
                Ok((stamped.collect::<Result<Vec<_>>>()?, record.columns()?))
            });
            let (entries, columns) = match staged {
                Ok(staged) => staged,
                Err(error) => return (vec![], Err(error)),
            };
            let mut writes = vec![Write::Saga(keys[0].clone(), Box::new(columns)), Write::Reserve(subject)];
            for entry in entries {
                let key = Key::Staged(entry.route.clone(), entry.event_id);
                let row = Row::new(row_of(entry, state.next_seq(), now));
                writes.push(Write::Row(key, Box::new(row)));
            }
            (writes, Ok(StagedSaga::Fresh { id, generation }))
        })
        .await?
    }
}

/// Every step has a key of its own; this one is never used.
fn id_of(saga: SagaId) -> pillarbox_core::EventId {
    pillarbox_core::EventId(saga.0)
}

#[async_trait]
impl StageSaga<MemoryTx> for MemoryOutbox {
    async fn stage_saga(&self, tx: &mut MemoryTx, saga: Saga) -> Result<StagedSaga> {
        Self::stage_saga(self, tx, saga).await
    }
}

impl State {
    /// The newest generation of this name and subject that is committed.
    fn newest_of(&self, subject: &Key) -> u32 {
        let of = self.sagas.values().filter(|saga| subject_of(saga) == *subject);
        let newest = of.map(|saga| saga.generation).max().unwrap_or(0);
        u32::try_from(newest).unwrap_or(u32::MAX)
    }
}

/// The key under which the generations of a subject are counted.
pub(in crate::memory) fn subject_of(saga: &pillarbox_core::SagaColumns) -> Key {
    Key::Subject(saga.name.clone(), saga.subject_kind.clone(), saga.subject_value.clone())
}
