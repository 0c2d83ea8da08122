//! What operators see and do of sagas.

use async_trait::async_trait;
use mongodb::bson::{Bson, Document, doc};
use pillarbox_core::limits::OPEN_SAGAS_MAX;
use pillarbox_core::port::shared::intervene;
use pillarbox_core::port::{
    Intervened, InterventionRequest, PurgeRequest, Purged, SagaAdmin, SagaCounts, SagaFilter, SagaStory,
};
use pillarbox_core::{AuditRecord, Reference, Result, RouteName, SagaId, SagaRecord, Timestamp, check_name};

use crate::admin::records;
use crate::call::{Link, Reading, Traffic, UnitOfWork};
use crate::command::{Find, aggregate, now};
use crate::row::Cells;
use crate::store::MongoStore;
use crate::tables::Tables;

use super::read::{load, saga};
use super::settle::Locked;

impl MongoStore {
    /// Sagas of a route that have not ended, up to a limit.
    pub(crate) async fn count_open_sagas(&self, route: &RouteName) -> Result<u64> {
        let limit = i64::try_from(OPEN_SAGAS_MAX).unwrap_or(i64::MAX);
        let open = doc! { "route": route.as_str(), "ended_at": Bson::Null };
        let find = Find::new(&self.tables.saga, open).limit(limit).fields(&["_id"]);
        Ok(self.find(Traffic::Relay, find).await?.len() as u64)
    }
}

#[async_trait]
impl SagaAdmin for MongoStore {
    async fn list_sagas(&self, filter: SagaFilter) -> Result<Vec<SagaRecord>> {
        filter.check()?;
        let mut wanted = Document::new();
        wanted.extend(filter.status.map(|status| ("status".to_owned(), Bson::from(status.as_str()))));
        wanted.extend(filter.name.map(|name| ("name".to_owned(), Bson::from(name))));
        if let Some(subject) = filter.subject {
            wanted.extend(doc! { "subject_kind": subject.kind, "subject_value": subject.value });
        }
        if let Some(after) = filter.after {
            let at = after.created_at.as_micros();
            let same_time = doc! { "created_at": at, "_id": { "$gt": after.id.to_string() } };
            wanted.extend(doc! { "$or": [{ "created_at": { "$gt": at } }, same_time] });
        }
        if filter.limit == 0 {
            return Ok(vec![]);
        }
        let find = Find::new(&self.tables.saga, wanted).sort(doc! { "created_at": 1, "_id": 1 });
        let rows = self.find(Traffic::Operator, find.limit(filter.limit.into())).await?;
        rows.iter().map(saga).collect()
    }

    async fn show_saga(&self, id: SagaId) -> Result<Option<SagaStory>> {
        self.together(Traffic::Operator, &Show { tables: &self.tables, id }).await
    }

    async fn intervene(&self, request: InterventionRequest) -> Result<Intervened> {
        check_name("actor", &request.actor)?;
        intervene(&Locked(&self.sagas()), &request).await
    }

    async fn saga_counts(&self, at: Option<Timestamp>) -> Result<SagaCounts> {
        let at = now(at);
        let is_open = doc! { "$eq": [{ "$ifNull": ["$ended_at", Bson::Null] }, Bson::Null] };
        let has_deadline = doc! { "$ne": [{ "$ifNull": ["$deadline_at", Bson::Null] }, Bson::Null] };
        let is_past = doc! { "$lte": ["$deadline_at", at.clone()] };
        let overdue = doc! { "$and": [is_open, has_deadline, is_past] };
        let group = doc! {
            "_id": { "status": "$status", "route": "$route" },
            "sagas": { "$sum": 1_i64 },
            "overdue": { "$sum": { "$cond": [overdue, 1_i64, 0_i64] } },
            "since": { "$min": "$updated_at" },
        };
        let told = doc! {
            "_id": 0, "status": "$_id.status", "sagas": 1, "overdue": 1, "since": 1, "now": { "$add": [at, 0_i64] }, "route": "$_id.route",
        };
        let look = aggregate(&self.tables.saga, vec![doc! { "$group": group }, doc! { "$project": told }]);
        let mut counts = SagaCounts::zero();
        for row in &self.rows(Traffic::Operator, look, Reading::Newest).await? {
            counts.count(&mut Cells::of(row, &["status", "sagas", "overdue", "since", "now", "route"]))?;
        }
        Ok(counts)
    }

    async fn audit_of(&self, subject: &Reference) -> Result<Vec<AuditRecord>> {
        let filter = doc! { "subject_kind": &subject.kind, "subject_value": &subject.value };
        let find = Find::new(&self.tables.audit, filter).sort(doc! { "seq": 1 });
        records(&self.find(Traffic::Operator, find).await?)
    }

    async fn purge_sagas(&self, request: PurgeRequest) -> Result<Purged> {
        self.purge_ended(request).await
    }
}

/// A saga with its trail. One moment, so that the trail explains the status that is shown.
struct Show<'a> {
    tables: &'a Tables,
    id: SagaId,
}

#[async_trait]
impl UnitOfWork for Show<'_> {
    type Outcome = Option<SagaStory>;

    async fn run(&self, tx: &mut Link<'_>) -> Result<Option<SagaStory>> {
        let Some((saga, entries)) = load(self.tables, self.id, tx).await? else { return Ok(None) };
        let find = Find::new(&self.tables.audit, doc! { "saga_id": self.id.to_string() });
        let audit = records(&tx.find(find.sort(doc! { "seq": 1 })).await?)?;
        Ok(Some(SagaStory { saga, entries, audit }))
    }
}
