//! Purging: what was settled, accepted, or ended long enough ago goes, in small batches.

use async_trait::async_trait;
use mongodb::bson::{Bson, Document, doc};
use pillarbox_core::Result;
use pillarbox_core::port::{Effect, PurgeRequest, Purged};

use crate::call::{Link, Traffic, UnitOfWork};
use crate::change::audit;
use crate::claim::micros;
use crate::command::{Find, delete, insert};
use crate::store::MongoStore;
use crate::tables::{ENDED, Tables};

impl MongoStore {
    pub(crate) async fn purge_settled(&self, request: PurgeRequest) -> Result<Purged> {
        let part = |status: &str| {
            let index = Some(self.tables.index(ENDED));
            Part {
                collection: &self.tables.outbox,
                field: "settled_at",
                filter: doc! { "status": status },
                index,
            }
        };
        self.purge_by(&request, "purged", vec![part("delivered"), part("discarded")], None).await
    }

    pub(crate) async fn purge_accepted(&self, request: PurgeRequest) -> Result<Purged> {
        let (collection, filter) = (&self.tables.inbox, Document::new());
        let part =
            Part { collection, field: "accepted_at", filter, index: Some(self.tables.index("inbox_age")) };
        self.purge_by(&request, "inbox_purged", vec![part], Some(&self.tables.inbox_fence)).await
    }

    pub(crate) async fn purge_ended(&self, request: PurgeRequest) -> Result<Purged> {
        let (collection, filter) = (&self.tables.saga, Document::new());
        let part =
            Part { collection, field: "ended_at", filter, index: Some(self.tables.index("saga_ended")) };
        self.purge_by(&request, "sagas_purged", vec![part], None).await
    }

    async fn purge_by(
        &self,
        request: &PurgeRequest,
        kind: &str,
        parts: Vec<Part<'_>>,
        forget: Option<&str>,
    ) -> Result<Purged> {
        request.check()?;
        let purge = Purge { tables: &self.tables, request, kind, parts, forget };
        // Most of the time there is nothing to do; a look needs no transaction.
        let found = purge.found(&mut self.link(Traffic::Relay)).await?;
        let purged = found.iter().map(|part| part.len() as u64).sum();
        if purged == 0 || request.effect == Effect::DryRun {
            return Ok(Purged { purged });
        }
        self.together(Traffic::Relay, &purge).await
    }
}

/// Documents that go by their age: the oldest first, along an index.
struct Part<'a> {
    collection: &'a str,
    field: &'static str,
    filter: Document,
    index: Option<String>,
}

struct Purge<'a> {
    tables: &'a Tables,
    request: &'a PurgeRequest,
    kind: &'a str,
    parts: Vec<Part<'a>>,
    /// What else goes by the same age.
    forget: Option<&'a str>,
}

impl Purge<'_> {
    async fn before(&self, link: &Link<'_>) -> Result<i64> {
        let now = link.now_or(self.request.now).await?;
        Ok(now.as_micros().saturating_sub(micros(self.request.older_than)))
    }

    /// The ids of what each part deletes: together not more than the limit.
    async fn found(&self, link: &mut Link<'_>) -> Result<Vec<Vec<Bson>>> {
        let before = self.before(link).await?;
        let mut left = i64::from(self.request.limit);
        let mut found = Vec::new();
        for part in &self.parts {
            if left <= 0 {
                break;
            }
            let mut filter = part.filter.clone();
            filter.insert(part.field, doc! { "$lte": before });
            let mut find =
                Find::new(part.collection, filter).sort(doc! { part.field: 1 }).limit(left).fields(&["_id"]);
            find.hint.clone_from(&part.index);
            let ids: Vec<Bson> =
                link.find(find).await?.into_iter().filter_map(|mut one| one.remove("_id")).collect();
            left -= i64::try_from(ids.len()).unwrap_or(i64::MAX);
            found.push(ids);
        }
        Ok(found)
    }
}

#[async_trait]
impl UnitOfWork for Purge<'_> {
    type Outcome = Purged;

    async fn run(&self, tx: &mut Link<'_>) -> Result<Purged> {
        let found = self.found(tx).await?;
        let total: usize = found.iter().map(Vec::len).sum();
        if total == 0 {
            return Ok(Purged::default());
        }
        let at = tx.now_or(self.request.now).await?.as_micros();
        let mut record = audit(at, self.kind, &self.request.actor);
        record.insert("detail", total.to_string());
        tx.write(insert(&self.tables.audit, vec![record])).await?;
        let mut purged = 0;
        for (part, ids) in self.parts.iter().zip(found).filter(|(_, ids)| !ids.is_empty()) {
            purged += tx.write(delete(part.collection, doc! { "_id": { "$in": ids } })).await?.found;
        }
        if let Some(forget) = self.forget {
            let before = self.before(tx).await?;
            tx.write(delete(forget, doc! { "seen_at": { "$lte": before } })).await?;
        }
        Ok(Purged { purged })
    }
}
