//! Settling steps: read under locks, decided, and written in one transaction.

use std::collections::BTreeMap;

use async_trait::async_trait;
use mongodb::bson::{Document, doc};
use pillarbox_core::port::shared::{self, HeldSteps, LockedSagas, given_up};
use pillarbox_core::port::{self, Keep, SagaHooks, StepSettleRequest, StepsSettled, SweepRequest, Swept};
use pillarbox_core::{Entry, Error, ErrorKind, Held, Result, SagaId, SagaRecord, SagaWork, Timestamp};

use crate::call::{Link, Reading, TRIES, Traffic, Tries};
use crate::command::{Find, aggregate};
use crate::commit::{Tx, commit, rollback};
use crate::error::Phase;
use crate::row::{number, number_of, text};
use crate::tables::ENDED;

use super::Sagas;
use super::read::{held_steps, load};
use super::write::write;

#[async_trait]
impl port::Sagas for Sagas {
    async fn settle_steps(&self, request: StepSettleRequest) -> Result<StepsSettled> {
        shared::settle_steps(&Locked(self), &request).await.map_err(|error| match error.kind() {
            ErrorKind::Contention => given_up(TRIES),
            _ => error,
        })
    }

    async fn sweep(&self, request: SweepRequest) -> Result<Swept> {
        let names = self.sweepable(&request).await?;
        let ids: Vec<SagaId> = names.iter().filter_map(|name| name.parse().ok()).collect();
        let mut swept = Swept::of(names.len(), &ids, request.limit);
        for id in ids {
            if let Some(error) = swept.note(id, shared::sweep_one(&Locked(self), id, &request).await) {
                tracing::warn!(saga = %id, %error, "a saga could not be brought up to date; the next sweep tries again");
            }
        }
        Ok(swept)
    }
}

impl Sagas {
    fn link<'t>(&self, tx: &'t mut Tx<'static>) -> Link<'t> {
        Link::inside(self.store.database_for(Traffic::Relay), tx, Phase::Before)
    }

    /// Sagas that do not know how many of their entries are dead, and those whose time has come, in the order of their ids
    /// and behind the one where the last sweep ended: those that fail every time must not be all that is ever looked at.
    async fn sweepable(&self, request: &SweepRequest) -> Result<Vec<String>> {
        let tables = &self.store.tables;
        let mut link = self.store.link(Traffic::Relay);
        let now = link.now_or(request.now).await?.as_micros();
        let after = request.after.map(|id| id.to_string()).unwrap_or_default();
        let filter = doc! { "status": "dead", "settled_at": { "$gte": 0 }, "group_id": { "$gt": &after } };
        let group = doc! { "_id": "$group_id", "dead": { "$sum": 1_i64 } };
        let mut dead = aggregate(&tables.outbox, vec![doc! { "$match": filter }, doc! { "$group": group }]);
        dead.insert("hint", tables.index(ENDED));
        let dead = link.ask(dead, Reading::Newest).await?;
        let dead: BTreeMap<&str, i64> =
            dead.iter().map(|one| (text(one, "_id"), number(one, "dead"))).collect();
        let known = vec![
            doc! { "_id": { "$in": dead.keys().copied().collect::<Vec<_>>() } },
            doc! { "dead": { "$gt": 0 } },
            doc! { "due_at": { "$lte": now } },
        ];
        let find = Find::new(&tables.saga, doc! { "_id": { "$gt": &after }, "$or": known });
        let find = find.sort(doc! { "_id": 1 }).fields(&["_id", "dead", "due_at"]);
        let is_swept = |saga: &&Document| {
            let is_due = saga.get("due_at").and_then(number_of).is_some_and(|due| due <= now);
            is_due || number(saga, "dead") != dead.get(text(saga, "_id")).copied().unwrap_or(0)
        };
        let sagas = link.find(find).await?;
        let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
        Ok(sagas.iter().filter(is_swept).take(limit).map(|saga| text(saga, "_id").to_owned()).collect())
    }
}

/// Sagas whose transactions lock what they read.
pub(super) struct Locked<'a>(pub(super) &'a Sagas);

#[async_trait]
impl LockedSagas for Locked<'_> {
    type Tries = Tries;
    type Tx = Tx<'static>;

    fn hooks(&self) -> &SagaHooks<Tx<'static>> {
        &self.0.hooks
    }

    /// A transaction of the driver's, because the application's callbacks write in it too.
    async fn begin(&self) -> Result<Tx<'static>> {
        self.0.store.open_transaction(Traffic::Relay).await
    }

    async fn end(&self, tx: Tx<'static>, is_whole: bool) -> Result<()> {
        if is_whole {
            return commit(tx).await;
        }
        rollback(tx).await;
        Ok(())
    }

    async fn again(&self, tries: &mut Tries, error: &Error) -> bool {
        let again = tries.again(error);
        if again {
            if error.kind() == ErrorKind::Contention {
                self.0.store.end_abandoned().await;
            }
            tries.pause().await;
        }
        again
    }

    async fn now(&self, tx: &mut Tx<'static>, pinned: Option<Timestamp>) -> Result<Timestamp> {
        self.0.link(tx).now_or(pinned).await
    }

    async fn held(&self, tx: &mut Tx<'static>, claims: &[Held]) -> Result<HeldSteps> {
        held_steps(&self.0.store.tables, claims, &mut self.0.link(tx)).await
    }

    async fn load(&self, tx: &mut Tx<'static>, id: SagaId) -> Result<Option<(SagaRecord, Vec<Entry>)>> {
        load(&self.0.store.tables, id, &mut self.0.link(tx)).await
    }

    async fn write(
        &self,
        tx: &mut Tx<'static>,
        work: &[SagaWork],
        actor: &str,
        keep: Keep,
        now: Timestamp,
    ) -> Result<()> {
        write(&self.0.store.tables, work, actor, keep, now, &mut self.0.link(tx)).await
    }
}
