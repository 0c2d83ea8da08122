//! What operators change: entries by hand, and whether a route is paused. Audited first.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, doc};
use pillarbox_core::limits::AUDIT_TOLD_MAX;
use pillarbox_core::port::shared::{Asked, Candidate, Verb, candidate, sift};
use pillarbox_core::port::{Changed, Effect, PauseChange, PauseRequest, PauseTo, SelectionRequest};
use pillarbox_core::{Error, ErrorKind, NO_LANE, Result, check_name};

use crate::admin;
use crate::call::{Link, Traffic, UnitOfWork};
use crate::command::{Change as Write, Find, NEXT, insert, stamps, update};
use crate::lanes;
use crate::meant::{Seen, seen};
use crate::row::{Cells, number, number_of, text};
use crate::store::MongoStore;
use crate::tables::{SEQ, Tables};

/// What a change looks at of an entry.
const READ: [&str; 8] = ["seq", "event_id", "route", "status", "key", "lane", "due_at", "group_id"];

/// The beginning of an audit record.
pub(crate) fn audit(at: i64, kind: &str, actor: &str) -> Document {
    doc! { "seq": NEXT, "at": at, "kind": kind, "actor": actor, "detail": "" }
}

impl MongoStore {
    /// One transaction: what is there, the audit records, the change.
    pub(crate) async fn change_entries(&self, request: SelectionRequest, verb: Verb) -> Result<Changed> {
        check_name("actor", &request.actor)?;
        self.adopt(Traffic::Operator).await?;
        let change = Change { tables: &self.tables, request: &request, verb };
        if request.effect == Effect::DryRun {
            let found = change.look(&mut self.link(Traffic::Operator)).await?;
            return Ok(change.sift(&found)?.1);
        }
        self.together(Traffic::Operator, &change).await
    }

    /// One transaction: how it is, the audit record, the change.
    pub(crate) async fn change_pause(&self, request: PauseRequest) -> Result<PauseChange> {
        request.check()?;
        self.make_route(&request.route).await?;
        let pause = SetPause { tables: &self.tables, request: &request };
        self.together(Traffic::Operator, &pause).await
    }
}

struct Change<'a> {
    tables: &'a Tables,
    request: &'a SelectionRequest,
    verb: Verb,
}

/// What was selected, and the sagas of it.
struct Selected {
    entries: Vec<Seen>,
    sagas: BTreeMap<String, Document>,
}

impl Selected {
    fn saga(&self, entry: &Document) -> Option<&Document> {
        self.sagas.get(entry.get_str("group_id").ok()?)
    }

    fn candidate(&self, one: &Seen) -> Result<Candidate> {
        let entry = &one.document;
        let is_open = |saga: &&Document| saga.get("ended_at").and_then(number_of).is_none();
        let is_step = number(entry, "lane") == i64::from(NO_LANE);
        let open = self.saga(entry).filter(is_open).filter(|_| is_step);
        let value = |name: &str| entry.get(name).cloned().unwrap_or(Bson::Null);
        candidate(&mut Cells::values(vec![
            value("seq"),
            value("event_id"),
            value("route"),
            value("status"),
            one.standing.as_str().into(),
            one.lane_held.into(),
            one.is_due.into(),
            open.map_or(Bson::Null, |saga| text(saga, "_id").into()),
        ]))
    }
}

impl Change<'_> {
    /// What is selected.
    async fn look(&self, link: &mut Link<'_>) -> Result<Selected> {
        let asked = Asked::selected(self.request, self.verb);
        let entries = seen(&asked, &READ, self.tables, link).await?;
        let groups: BTreeSet<&str> =
            entries.iter().filter_map(|one| one.document.get_str("group_id").ok()).collect();
        let mut sagas = BTreeMap::new();
        if !groups.is_empty() {
            let groups: Vec<&str> = groups.into_iter().collect();
            let find = Find::new(&self.tables.saga, doc! { "_id": { "$in": groups } });
            for saga in link.find(find.fields(&["_id", "subject_kind", "subject_value", "ended_at"])).await? {
                sagas.insert(text(&saga, "_id").to_owned(), saga);
            }
        }
        Ok(Selected { entries, sagas })
    }

    /// The entries to change, and the report about them and the others.
    fn sift(&self, found: &Selected) -> Result<(Vec<i64>, Changed)> {
        let asked = Asked::selected(self.request, self.verb);
        sift(found.entries.iter().map(|one| found.candidate(one)), self.verb, asked.ids)
    }

    fn records(&self, found: &Selected, picked: &BTreeSet<i64>, at: i64) -> Vec<Document> {
        let kind = self.verb.audited_as().as_str();
        let record = |entry: &Document| {
            let mut record = audit(at, kind, &self.request.actor);
            // The record is found again by it.
            record.insert("_id", ObjectId::new());
            for name in ["route", "event_id"] {
                record.insert(name, entry.get(name).cloned().unwrap_or(Bson::Null));
            }
            if let Some(saga) = found.saga(entry) {
                record.insert("saga_id", text(saga, "_id"));
                record.insert("subject_kind", text(saga, "subject_kind"));
                record.insert("subject_value", text(saga, "subject_value"));
            }
            record
        };
        let is_picked = |entry: &&Document| picked.contains(&number(entry, "seq"));
        found.entries.iter().map(|one| &one.document).filter(is_picked).map(record).collect()
    }

    fn write(&self, at: i64) -> Document {
        match self.verb {
            // The fence stays: it only ever grows.
            Verb::Requeue => doc! {
                "$set": { "status": "pending", "attempts": 0, "crashes": 0 },
                "$unset": { "due_at": "", "settled_at": "", "owner": "", "claim": "" },
            },
            Verb::Discard | Verb::Cancel => {
                doc! { "$set": { "status": "discarded", "settled_at": at }, "$unset": { "due_at": "" } }
            }
            Verb::Hasten => doc! { "$unset": { "due_at": "" } },
        }
    }
}

#[async_trait]
impl UnitOfWork for Change<'_> {
    type Outcome = Changed;

    async fn run(&self, tx: &mut Link<'_>) -> Result<Changed> {
        let found = self.look(tx).await?;
        let (picked, mut changed) = self.sift(&found)?;
        if picked.is_empty() {
            return Ok(changed);
        }
        let (tables, at) = (self.tables, tx.now_or(self.request.now).await?.as_micros());
        let picked: BTreeSet<i64> = picked.into_iter().collect();
        // The audit records come before the status that they explain.
        let records = self.records(&found, &picked, at);
        let told_max = usize::try_from(AUDIT_TOLD_MAX).unwrap_or(usize::MAX);
        let told: Vec<Bson> =
            records.iter().take(told_max).filter_map(|one| one.get("_id").cloned()).collect();
        tx.write(insert(&tables.audit, records)).await?;
        let told = Find::new(&tables.audit, doc! { "_id": { "$in": told } }).sort(doc! { "seq": 1 });
        changed.audit = admin::records(&tx.find(told).await?)?;
        let takes: Vec<&str> = self.verb.takes().map(|status| status.as_str()).collect();
        let filter = doc! { "seq": { "$in": stamps(picked.iter().copied()) }, "status": { "$in": takes } };
        let write = Write::all(filter, self.write(at)).hint(tables.index(SEQ));
        if tx.write(update(&tables.outbox, [write])).await?.found != picked.len() as u64 {
            return Err(Error::new(ErrorKind::Contention, "an entry changed at the same time; try again"));
        }
        // The readers of these lanes are past these entries.
        let is_picked = |entry: &Document| picked.contains(&number(entry, "seq"));
        let rows: Vec<Document> =
            found.entries.into_iter().map(|one| one.document).filter(is_picked).collect();
        if let Some(revise) = lanes::revise(tables, &lanes::revised(&rows)) {
            tx.write(revise).await?;
        }
        Ok(changed)
    }
}

struct SetPause<'a> {
    tables: &'a Tables,
    request: &'a PauseRequest,
}

#[async_trait]
impl UnitOfWork for SetPause<'_> {
    type Outcome = PauseChange;

    async fn run(&self, tx: &mut Link<'_>) -> Result<PauseChange> {
        let SetPause { tables, request } = self;
        let route = doc! { "_id": request.route.as_str() };
        let state = tx.find(Find::new(&tables.route_state, route.clone())).await?;
        let is_paused =
            state.first().is_some_and(|state| state.get("paused_at").and_then(number_of).is_some());
        let change = request.change(is_paused);
        if change == PauseChange::Already {
            return Ok(change);
        }
        let at = tx.now_or(request.now).await?.as_micros();
        let mut record = audit(at, request.to.audited_as().as_str(), &request.actor);
        record.insert("route", request.route.as_str());
        record.insert("detail", &request.reason);
        tx.write(insert(&tables.audit, vec![record])).await?;
        let set = match request.to {
            PauseTo::Paused => doc! {
                "$set": { "paused_at": at, "paused_by": &request.actor, "pause_reason": &request.reason },
            },
            PauseTo::Running => doc! { "$unset": { "paused_at": "", "paused_by": "", "pause_reason": "" } },
        };
        tx.write(update(&tables.route_state, [Write::upsert(route, set)])).await?;
        Ok(change)
    }
}
