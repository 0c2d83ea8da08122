//! Settling steps: read under locks, decided, and written in one transaction.

use std::collections::BTreeMap;

use async_trait::async_trait;
use mongodb::bson::{Document, doc};
use pillarbox_core::port::shared::StepDecisions;
use pillarbox_core::port::{self, Keep, StepSettleRequest, StepsSettled, SweepRequest, Swept};
use pillarbox_core::{Error, ErrorKind, Held, Result, SagaId, SagaWork, StepSeen, Timestamp};

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
        if request.settlements.is_empty() {
            return Ok(StepsSettled::default());
        }
        let mut tries = Tries::default();
        loop {
            let mut tx = self.begin().await?;
            let settled = self.settle_in(&mut tx, &request).await;
            match end(tx, settled).await {
                Err(error) if tries.again(&error) => tries.pause().await,
                answer => return answer.map_err(given_up),
            }
        }
    }

    async fn sweep(&self, request: SweepRequest) -> Result<Swept> {
        let names = self.sweepable(&request).await?;
        let ids: Vec<SagaId> = names.iter().filter_map(|name| name.parse().ok()).collect();
        let mut swept = Swept::of(names.len(), &ids, request.limit);
        for id in ids {
            if let Some(error) = swept.note(id, self.sweep_one(id, &request).await) {
                tracing::warn!(saga = %id, %error, "a saga could not be brought up to date; the next sweep tries again");
            }
        }
        Ok(swept)
    }
}

impl Sagas {
    /// A transaction of the driver's, because the application's callbacks write in it too.
    async fn begin(&self) -> Result<Tx<'static>> {
        self.store.open_transaction(Traffic::Relay).await
    }

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

    async fn settle_in(&self, tx: &mut Tx<'static>, request: &StepSettleRequest) -> Result<StepsSettled> {
        let mut link = self.link(tx);
        let now = link.now_or(request.now).await?;
        let claims: Vec<Held> = request.settlements.iter().map(|one| one.held).collect();
        let mut found = held_steps(&self.store.tables, &claims, &mut link).await?;
        let mut decided = StepDecisions::default();
        for settlement in &request.settlements {
            // The same claim twice: the first outcome counts.
            decided.settle(settlement.clone(), found.remove(&settlement.held), now)?;
        }
        let work = decided.take_work();
        if !work.is_empty() {
            self.carry_out(tx, &work, &request.owner, request.keep, now).await?;
        }
        Ok(decided.written(|_| true).0)
    }

    /// Sinks, everything that is written, callbacks: in this order.
    async fn carry_out(
        &self,
        tx: &mut Tx<'static>,
        work: &[SagaWork],
        actor: &str,
        keep: Keep,
        now: Timestamp,
    ) -> Result<()> {
        for one in work {
            self.hooks.record(tx, &one.moves).await?;
        }
        write(&self.store.tables, work, actor, keep, now, &mut self.link(tx)).await?;
        for one in work {
            self.hooks.ended(tx, &one.moves, &one.saga).await?;
        }
        Ok(())
    }

    /// Whether it has ended; `None`: nothing was to be done.
    async fn sweep_one(&self, id: SagaId, request: &SweepRequest) -> Result<Option<bool>> {
        let mut tries = Tries::default();
        loop {
            let mut tx = self.begin().await?;
            let swept = self.sweep_in(&mut tx, id, request).await;
            match end(tx, swept).await {
                Err(error) if tries.again(&error) => tries.pause().await,
                answer => return answer,
            }
        }
    }

    async fn sweep_in(
        &self,
        tx: &mut Tx<'static>,
        id: SagaId,
        request: &SweepRequest,
    ) -> Result<Option<bool>> {
        let mut link = self.link(tx);
        let now = link.now_or(request.now).await?;
        let Some((saga, entries)) = load(&self.store.tables, id, &mut link).await? else { return Ok(None) };
        let seen = entries.iter().map(StepSeen::from).collect();
        let Some(work) = SagaWork::sweep(saga, seen, now)? else { return Ok(None) };
        let one = std::slice::from_ref(&work);
        self.carry_out(tx, one, &request.owner, Keep::UntilPurged, now).await?;
        Ok(Some(work.moves.ended))
    }

    /// An operator's change, without callbacks: what ends a saga is the relay's.
    pub(super) async fn intervene(&self, request: &port::InterventionRequest) -> Result<port::Intervened> {
        let mut tries = Tries::default();
        loop {
            let mut tx = self.begin().await?;
            let intervened = self.intervene_in(&mut tx, request).await;
            match end(tx, intervened).await {
                Err(error) if tries.again(&error) => tries.pause().await,
                answer => return answer,
            }
        }
    }

    async fn intervene_in(
        &self,
        tx: &mut Tx<'static>,
        request: &port::InterventionRequest,
    ) -> Result<port::Intervened> {
        let mut link = self.link(tx);
        let now = link.now_or(request.now).await?;
        let loaded = load(&self.store.tables, request.id, &mut link).await?;
        let (saga, entries) = loaded.ok_or_else(|| request.unknown())?;
        let seen = entries.iter().map(StepSeen::from).collect();
        let work = SagaWork::intervene(saga, seen, &request.what, now)?;
        let one = std::slice::from_ref(&work);
        self.carry_out(tx, one, &request.actor, Keep::UntilPurged, now).await?;
        Ok(work.intervened())
    }
}

/// Commits what was done, or rolls back.
async fn end<T>(tx: Tx<'static>, outcome: Result<T>) -> Result<T> {
    match outcome {
        Ok(outcome) => commit(tx).await.map(|()| outcome),
        Err(error) => {
            rollback(tx).await;
            Err(error)
        }
    }
}

fn given_up(error: Error) -> Error {
    if error.kind() != ErrorKind::Contention {
        return error;
    }
    Error::new(
        ErrorKind::Contention,
        format!(
            "saga update conflicted {TRIES} times and was given up for now; it is retried when its lease ends. If this \
             persists, run fewer relays on this route"
        ),
    )
}
