//! What operators see.

use std::collections::BTreeMap;

use async_trait::async_trait;
use mongodb::bson::{Bson, Document, doc};
use pillarbox_core::limits::{COUNTED_MAX, HEADS_NAMED_MAX};
use pillarbox_core::port::shared::{Asked, RouteTally, Verb, audit_record, inventory_row};
use pillarbox_core::port::{
    Admin, AuditFilter, Changed, CountBy, CountByRequest, CountGroup, Filter, InventoryRequest, InventoryRow,
    LaneBacklog, PauseChange, PauseRequest, PurgeRequest, Purged, Recent, RecentRequest, RouteCounts,
    SelectionRequest, Story, Waits, WaitsRequest,
};
use pillarbox_core::{AuditRecord, Entry, ErrorKind, EventId, Result, RouteName, Status, Timestamp};

use crate::call::{Link, Reading, Traffic, UnitOfWork};
use crate::command::{Find, aggregate, event, stamp_of, stamps};
use crate::meant::{Seen, View, find, seen};
use crate::row::{Cells, decode, number, number_of, text};
use crate::store::MongoStore;
use crate::tables::{ENDED, LANE, OPEN, SEQ, Tables};

/// The fields of an audit record, in the order in which they are read.
const AUDIT: [&str; 11] = [
    "seq",
    "at",
    "kind",
    "actor",
    "route",
    "event_id",
    "saga_id",
    "subject_kind",
    "subject_value",
    "step",
    "detail",
];
const INVENTORY: [&str; 6] = ["seq", "event_id", "route", "key", "status", "created_at"];

#[async_trait]
impl Admin for MongoStore {
    async fn counts(&self, now: Option<Timestamp>) -> Result<Vec<RouteCounts>> {
        self.adopt_if_allowed().await?;
        self.together(Traffic::Operator, &Count { tables: &self.tables, now }).await
    }

    async fn lanes_of(&self, route: &RouteName) -> Result<Vec<LaneBacklog>> {
        self.adopt_if_allowed().await?;
        self.lane_backlogs(route).await
    }

    async fn list(&self, filter: Filter) -> Result<Vec<Entry>> {
        filter.check()?;
        self.adopt_if_allowed().await?;
        let mut link = self.link(Traffic::Operator);
        let seen = seen(&Asked::listed(&filter), &[], &self.tables, &mut link).await?;
        Ok(seen.into_iter().map(entry).collect())
    }

    async fn count_by(&self, request: CountByRequest) -> Result<Vec<CountGroup>> {
        request.filter.check()?;
        self.adopt_if_allowed().await?;
        let (asked, by) = (Asked::counted(&request.filter), request.by);
        let fields = fields_of(by);
        let mut counts: BTreeMap<Option<String>, u64> = BTreeMap::new();
        let mut add = |found: &Document, entries: u64| {
            *counts.entry(value_of(by, found)).or_default() += entries;
        };
        let mut link = self.link(Traffic::Operator);
        if asked.is_derived() {
            let read = [&["seq", "route", "status", "key", "lane", "due_at"], fields].concat();
            for one in seen(&asked, &read, &self.tables, &mut link).await? {
                add(&one.document, 1);
            }
        } else {
            let now = link.now_or(None).await?;
            let find = find(&asked, &self.tables, now);
            let of: Document =
                fields.iter().map(|field| ((*field).to_owned(), format!("${field}").into())).collect();
            let group = doc! { "_id": of, "entries": { "$sum": 1_i64 } };
            let pipeline = vec![doc! { "$match": find.filter }, doc! { "$group": group }];
            let mut command = aggregate(&self.tables.outbox, pipeline);
            command.insert("hint", find.hint.unwrap_or_default());
            for group in link.ask(command, Reading::Newest).await? {
                let entries = number(&group, "entries").unsigned_abs();
                add(group.get_document("_id").unwrap_or(&Document::new()), entries);
            }
        }
        let mut groups: Vec<(Option<String>, u64)> = counts.into_iter().collect();
        groups.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        groups.truncate(usize::try_from(request.filter.limit).unwrap_or(usize::MAX));
        Ok(CountGroup::gather(request.by, groups))
    }

    async fn waits(&self, request: WaitsRequest) -> Result<Waits> {
        self.delivery_waits(request).await
    }

    async fn inventory(&self, request: InventoryRequest) -> Result<Vec<InventoryRow>> {
        request.check()?;
        self.adopt_if_allowed().await?;
        let find = Find::new(&self.tables.outbox, doc! { "seq": { "$gt": stamp_of(request.after) } })
            .sort(doc! { "seq": 1 })
            .limit(request.limit.into())
            .fields(&INVENTORY)
            .hint(self.tables.index(SEQ));
        let rows = self.find(Traffic::Operator, find).await?;
        rows.iter().map(|row| inventory_row(&mut Cells::of(row, &INVENTORY))).collect()
    }

    async fn show(&self, id: EventId) -> Result<Vec<Story>> {
        self.adopt_if_allowed().await?;
        self.together(Traffic::Operator, &Show { tables: &self.tables, id }).await
    }

    async fn trail(&self, filter: AuditFilter) -> Result<Vec<AuditRecord>> {
        if filter.limit == 0 {
            return Ok(vec![]);
        }
        let mut meant = Document::new();
        if let Some(before) = filter.before {
            meant.insert("seq", doc! { "$lt": stamp_of(before) });
        }
        if !filter.kinds.is_empty() {
            let kinds: Vec<&str> = filter.kinds.iter().map(|kind| kind.as_str()).collect();
            meant.insert("kind", doc! { "$in": kinds });
        }
        if let Some(actor) = filter.actor {
            meant.insert("actor", actor);
        }
        if let Some(since) = filter.since {
            meant.insert("at", doc! { "$gte": since.as_micros() });
        }
        let find = Find::new(&self.tables.audit, meant).sort(doc! { "seq": -1 }).limit(filter.limit.into());
        records(&self.find(Traffic::Operator, find).await?)
    }

    async fn recent(&self, request: RecentRequest) -> Result<Recent> {
        self.recent_activity(request).await
    }

    async fn change(&self, request: SelectionRequest, verb: Verb) -> Result<Changed> {
        self.change_entries(request, verb).await
    }

    async fn set_pause(&self, request: PauseRequest) -> Result<PauseChange> {
        self.change_pause(request).await
    }

    async fn purge(&self, request: PurgeRequest) -> Result<Purged> {
        self.purge_settled(request).await
    }

    async fn purge_inbox(&self, request: PurgeRequest) -> Result<Purged> {
        self.purge_accepted(request).await
    }
}

impl MongoStore {
    /// Takes in what plain inserts have written, unless the user may only look.
    async fn adopt_if_allowed(&self) -> Result<()> {
        match self.adopt(Traffic::Operator).await {
            Err(error) if error.kind() == ErrorKind::Denied => Ok(()),
            answer => answer,
        }
    }
}

/// The event of one id, on every route that carries it, with its trail. One moment, so that the trail explains the status
/// that is shown.
struct Show<'a> {
    tables: &'a Tables,
    id: EventId,
}

#[async_trait]
impl UnitOfWork for Show<'_> {
    type Outcome = Vec<Story>;

    async fn run(&self, tx: &mut Link<'_>) -> Result<Vec<Story>> {
        let ids = [self.id];
        let entries = seen(&Asked::named(&ids), &[], self.tables, tx).await?.into_iter().map(entry).collect();
        let trail =
            Find::new(&self.tables.audit, doc! { "event_id": event(self.id) }).sort(doc! { "seq": 1 });
        Ok(Story::tell(entries, &records(&tx.find(trail).await?)?))
    }
}

/// Everything that is counted, at one moment, so that an entry that moves is counted once.
struct Count<'a> {
    tables: &'a Tables,
    now: Option<Timestamp>,
}

#[async_trait]
impl UnitOfWork for Count<'_> {
    type Outcome = Vec<RouteCounts>;

    async fn run(&self, tx: &mut Link<'_>) -> Result<Vec<RouteCounts>> {
        let now = tx.now_or(self.now).await?;
        let mut routes = RouteTally::default();
        self.live(now, &mut routes, tx).await?;
        self.ended(&mut routes, tx).await?;
        let view = View::look(self.tables, tx).await?;
        self.handed(&view, now, &mut routes, tx).await?;
        self.blocked(&view, &mut routes, tx).await?;
        let paused = Find::new(&self.tables.route_state, doc! { "paused_at": { "$gt": 0 } });
        for state in tx.find(paused).await? {
            routes.paused(&mut Cells::of(&state, &["_id", "paused_at", "paused_by", "pause_reason"]))?;
        }
        Ok(routes.told())
    }
}

impl Count<'_> {
    /// What is not at its end, by its index alone, and since when the oldest due entry waits.
    async fn live(&self, now: Timestamp, routes: &mut RouteTally, tx: &mut Link<'_>) -> Result<()> {
        let due = doc! { "$ifNull": ["$due_at", Bson::Null] };
        let is_ready = doc! { "$eq": [due.clone(), Bson::Null] };
        let is_past =
            doc! { "$and": [{ "$ne": [due, Bson::Null] }, { "$lte": ["$due_at", now.as_micros()] }] };
        let group = doc! {
            "_id": { "route": "$route", "status": "$status" },
            "entries": { "$sum": 1_i64 },
            "first": { "$min": { "$cond": [is_ready, "$seq", Bson::Null] } },
            "due": { "$min": { "$cond": [is_past, "$due_at", Bson::Null] } },
        };
        let pipeline = vec![doc! { "$match": { "settled_at": Bson::Null } }, doc! { "$group": group }];
        let mut command = aggregate(&self.tables.outbox, pipeline);
        command.insert("hint", self.tables.index(OPEN));
        let mut firsts = BTreeMap::<RouteName, i64>::new();
        for row in tx.ask(command, Reading::Newest).await? {
            let route = count(&row, routes)?;
            let due = row.get("due").and_then(number_of).and_then(Timestamp::from_micros);
            routes.waits_since(&route, due, now);
            if let Some(first) = row.get("first").and_then(number_of) {
                firsts.entry(route).and_modify(|known| *known = first.min(*known)).or_insert(first);
            }
        }
        // When an entry was staged is not in the index.
        let find =
            Find::new(&self.tables.outbox, doc! { "seq": { "$in": stamps(firsts.values().copied()) } });
        let find = find.fields(&["route", "created_at"]).hint(self.tables.index(SEQ));
        for row in tx.find(find).await? {
            let created = Timestamp::from_micros(number(&row, "created_at"));
            routes.waits_since(&RouteName::shown(text(&row, "route")), created, now);
        }
        Ok(())
    }

    /// What is at its end, by its index alone. Of the delivered and of the discarded only the newest.
    async fn ended(&self, routes: &mut RouteTally, tx: &mut Link<'_>) -> Result<()> {
        let group = doc! { "_id": { "route": "$route", "status": "$status" }, "entries": { "$sum": 1_i64 } };
        for status in [Status::Delivered, Status::Dead, Status::Discarded] {
            let filter = doc! { "status": status.as_str(), "settled_at": { "$gte": 0 } };
            let mut pipeline = vec![doc! { "$match": filter }];
            if status != Status::Dead {
                pipeline.push(doc! { "$sort": { "settled_at": -1 } });
                pipeline.push(doc! { "$limit": i64::from(COUNTED_MAX) });
            }
            pipeline.push(doc! { "$group": group.clone() });
            let mut command = aggregate(&self.tables.outbox, pipeline);
            command.insert("hint", self.tables.index(ENDED));
            for row in tx.ask(command, Reading::Newest).await? {
                count(&row, routes)?;
            }
        }
        Ok(())
    }

    /// What lanes have handed out and not settled: nothing of that is stored in the entries. What waits for its time, or
    /// behind a dead entry, is in nobody's hands.
    async fn handed(
        &self,
        view: &View,
        now: Timestamp,
        routes: &mut RouteTally,
        tx: &mut Link<'_>,
    ) -> Result<()> {
        // Lanes of one session have read equally far.
        let mut sessions: BTreeMap<(&str, i64), Vec<i64>> = BTreeMap::new();
        for ((route, lane), handed) in &view.readers {
            sessions.entry((route, *handed)).or_default().push(*lane);
        }
        for ((route, handed), lanes) in sessions {
            let due = vec![doc! { "due_at": Bson::Null }, doc! { "due_at": { "$lte": now.as_micros() } }];
            let filter = doc! {
                "route": route, "lane": { "$in": lanes }, "seq": { "$lte": stamp_of(handed) },
                "status": { "$in": ["pending", "retrying"] }, "settled_at": Bson::Null, "$or": due,
            };
            let find = Find::new(&self.tables.outbox, filter).hint(self.tables.index(LANE));
            for document in tx.find(find.fields(&["route", "status", "key", "seq"])).await? {
                if view.head(&document).is_none() {
                    let row = vec![route.into(), text(&document, "status").into(), Bson::Int64(1)];
                    routes.handed(&mut Cells::values(row))?;
                }
            }
        }
        Ok(())
    }

    /// What waits behind dead entries, and whom the most wait for.
    async fn blocked(&self, view: &View, routes: &mut RouteTally, tx: &mut Link<'_>) -> Result<()> {
        let mut lanes: BTreeMap<(&str, i64), i64> = BTreeMap::new();
        for ((route, _), head) in &view.heads {
            lanes.entry((route, head.lane)).and_modify(|seq| *seq = head.seq.min(*seq)).or_insert(head.seq);
        }
        // How many wait behind each head, by route and the head's seq.
        let mut waiting: BTreeMap<(String, i64), (u64, Bson, String)> = BTreeMap::new();
        for ((route, lane), first) in lanes {
            let filter = doc! {
                "route": route, "lane": lane, "seq": { "$gt": stamp_of(first) },
                "status": { "$in": ["pending", "retrying"] }, "settled_at": Bson::Null,
            };
            let find = Find::new(&self.tables.outbox, filter).hint(self.tables.index(LANE));
            for document in tx.find(find.fields(&["route", "status", "key", "seq"])).await? {
                let Some(head) = view.head(&document) else { continue };
                let row = vec![route.into(), text(&document, "status").into(), Bson::Int64(1)];
                routes.blocked(&mut Cells::values(row))?;
                let id = head.event_id.map_or(Bson::Null, |id| event(id).into());
                let key = text(&document, "key").to_owned();
                waiting.entry((route.to_owned(), head.seq)).or_insert((0, id, key)).0 += 1;
            }
        }
        let mut ranked: Vec<_> = waiting.into_iter().collect();
        ranked.sort_by(|a, b| b.1.0.cmp(&a.1.0).then_with(|| a.0.cmp(&b.0)));
        let mut named: BTreeMap<String, u32> = BTreeMap::new();
        for ((route, _), (entries, id, key)) in ranked {
            let place = named.entry(route.clone()).or_default();
            *place += 1;
            if *place <= HEADS_NAMED_MAX {
                let entries = i64::try_from(entries).unwrap_or(i64::MAX);
                routes.blocked(&mut Cells::values(vec![
                    route.into(),
                    Bson::Null,
                    entries.into(),
                    id,
                    key.into(),
                ]))?;
            }
        }
        Ok(())
    }
}

/// Adds a group of a route and a status.
fn count(row: &Document, routes: &mut RouteTally) -> Result<RouteName> {
    let empty = Document::new();
    let id = row.get_document("_id").unwrap_or(&empty);
    let status = id.get_str("status").unwrap_or(Status::Pending.as_str());
    let entries = number(row, "entries");
    routes.count(&mut Cells::values(vec![text(id, "route").into(), status.into(), entries.into()]))
}

/// The fields that a group is made of.
fn fields_of(by: CountBy) -> &'static [&'static str] {
    match by {
        CountBy::Type => &["type"],
        CountBy::Error => &["last_error"],
        CountBy::Key => &["key"],
        CountBy::Tenant => &["tenant"],
        CountBy::TypeAndError => &["type", "last_error"],
    }
}

/// The group of an entry with these fields.
fn value_of(by: CountBy, found: &Document) -> Option<String> {
    let of = |field: &str| found.get_str(field).ok();
    let error = of("last_error").map(|error| error.split(": ").next().unwrap_or(error));
    let value = match by {
        CountBy::Type => of("type"),
        CountBy::Error => error,
        CountBy::Key => of("key"),
        CountBy::Tenant => of("tenant"),
        CountBy::TypeAndError => {
            return Some(format!("{}\u{1f}{}", of("type").unwrap_or_default(), error.unwrap_or_default()));
        }
    };
    value.map(ToOwned::to_owned)
}

/// An entry as an operator sees it.
fn entry(seen: Seen) -> Entry {
    let is_handed = seen.standing == Status::InFlight.into();
    let mut entry = decode(seen.document).entry;
    if is_handed {
        entry.status = Status::InFlight;
    }
    entry.blocked_by = seen.blocked_by;
    entry
}

/// Records of the audit trail.
pub(crate) fn records(rows: &[Document]) -> Result<Vec<AuditRecord>> {
    rows.iter().map(|row| audit_record(&mut Cells::of(row, &AUDIT))).collect()
}
