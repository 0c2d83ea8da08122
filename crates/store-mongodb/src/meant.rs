//! The entries that an operator means, by ids or by a filter, and how they stand.

use std::collections::{BTreeMap, BTreeSet};

use mongodb::bson::{Bson, Document, doc};
use pillarbox_core::port::shared::Asked;
use pillarbox_core::{EventId, NO_LANE, Result, Standing, Status, Timestamp, lane_of};
use uuid::Uuid;

use crate::call::Link;
use crate::command::{Find, event, stamp_of};
use crate::row::{number, number_of, text, uuid_of};
use crate::tables::{ENDED, EVENT, LANE, OPEN, SEQ, Tables};

/// How many entries are read at once where the standing is more than the status.
const PAGE: i64 = 1000;
/// How many at most where little is read of each. Every page goes through all of what is open, so pages grow.
const LARGE_PAGE: i64 = 64 * PAGE;
/// How many keys are looked for at most by their names.
const KEYS: usize = 1000;

/// The look at entries, by the index that finds them.
pub(crate) fn find(asked: &Asked<'_>, tables: &Tables, now: Timestamp) -> Find {
    let (filter, index) = scope(asked);
    let mut all = vec![filter];
    all.extend(narrowed(asked, now));
    Find::new(&tables.outbox, doc! { "$and": all }).sort(doc! { "seq": 1 }).hint(tables.index(index))
}

/// Which of the entries can be meant at all, and the index that has them.
fn scope(asked: &Asked<'_>) -> (Document, &'static str) {
    let names: Vec<&str> = asked.statuses.iter().map(|status| status.as_str()).collect();
    let stored = doc! { "$in": names };
    let rare = |status: &Status| matches!(status, Status::Dead | Status::Discarded);
    if let Some(ids) = asked.ids {
        let ids: Vec<Bson> = ids.iter().map(|id| Bson::Binary(event(*id))).collect();
        return (doc! { "event_id": { "$in": ids } }, EVENT);
    }
    if asked.statuses.iter().all(rare) {
        return (doc! { "status": stored, "settled_at": { "$gte": 0 } }, ENDED);
    }
    // Many delivered ones may come before them.
    if !asked.statuses.iter().any(|status| status.is_terminal()) {
        return (doc! { "status": stored, "settled_at": Bson::Null }, OPEN);
    }
    (doc! { "seq": { "$gt": stamp_of(0) }, "status": stored }, SEQ)
}

/// What narrows them.
fn narrowed(asked: &Asked<'_>, now: Timestamp) -> Vec<Document> {
    let filter = asked.filter;
    let mut all = Vec::new();
    let texts = [
        ("route", filter.route.as_ref().map(|route| route.as_str().to_owned())),
        ("type", filter.event_type.clone()),
        ("key", filter.key.clone()),
        ("tenant", filter.tenant.clone()),
    ];
    all.extend(texts.into_iter().filter_map(|(name, text)| Some(doc! { name: text? })));
    if let Some(begins) = filter.error_begins() {
        let error = doc! { "$concat": [{ "$ifNull": ["$last_error", ""] }, ": "] };
        let found = doc! { "$indexOfBytes": [error, { "$literal": begins }] };
        all.push(doc! { "$expr": { "$eq": [found, 0] } });
    }
    let at = || doc! { "$ifNull": ["$settled_at", "$created_at"] };
    all.extend(filter.since.map(|since| doc! { "$expr": { "$gte": [at(), since.as_micros()] } }));
    all.extend(filter.until.map(|until| doc! { "$expr": { "$lt": [at(), until.as_micros()] } }));
    all.extend(filter.after.map(|after| doc! { "seq": { "$gt": stamp_of(after) } }));
    if asked.waits {
        all.push(doc! { "due_at": { "$gt": now.as_micros() } });
    }
    all
}

/// An entry with its standing.
pub(crate) struct Seen {
    pub(crate) document: Document,
    pub(crate) standing: Standing,
    pub(crate) lane_held: bool,
    pub(crate) is_due: bool,
    pub(crate) blocked_by: Option<EventId>,
}

/// The entries that are meant, oldest first. `fields` narrows what is read of them; empty: everything.
pub(crate) async fn seen(
    asked: &Asked<'_>,
    fields: &[&str],
    tables: &Tables,
    link: &mut Link<'_>,
) -> Result<Vec<Seen>> {
    if asked.limit == Some(0) {
        return Ok(vec![]);
    }
    let now = link.now_or(asked.now).await?;
    let view = View::look(tables, link).await?;
    let limit = asked.limit.map_or(i64::MAX, i64::from);
    // Where the standing is more than the status, the limit is put on what is left.
    let mut page = if asked.is_derived() { PAGE } else { limit };
    let Some((among, index)) = view.among(asked.filter.status.filter(|_| asked.ids.is_none())) else {
        return Ok(vec![]);
    };
    let (mut seen, mut after): (Vec<Seen>, Option<i64>) = (Vec::new(), None);
    loop {
        let mut find = find(asked, tables, now).limit(if page == i64::MAX { 0 } else { page });
        if let Some(index) = index {
            find = find.hint(tables.index(index));
        }
        if !among.is_empty() {
            find.filter = doc! { "$and": [find.filter, among.clone()] };
        }
        if !fields.is_empty() {
            find = find.fields(fields);
        }
        if let Some(after) = after {
            find.filter = doc! { "$and": [find.filter, { "seq": { "$gt": stamp_of(after) } }] };
        }
        let found = link.find(find).await?;
        let is_last = !asked.is_derived() || (found.len() as u64) < page.unsigned_abs();
        if asked.is_derived() && !fields.is_empty() {
            page = (page * 2).min(LARGE_PAGE);
        }
        after = found.last().map(|last| number(last, "seq"));
        for document in found {
            let one = view.of(document, now);
            if asked.filter.status.is_none_or(|wanted| wanted == one.standing) {
                seen.push(one);
            }
            if seen.len() as u64 == limit.unsigned_abs() {
                return Ok(seen);
            }
        }
        if is_last {
            return Ok(seen);
        }
    }
}

/// The first dead entry of a key that is blocked by it.
pub(crate) struct Head {
    pub(crate) seq: i64,
    pub(crate) lane: i64,
    pub(crate) event_id: Option<EventId>,
}

/// What the standing of an entry depends on besides itself.
pub(crate) struct View {
    /// By route and key.
    pub(crate) heads: BTreeMap<(String, String), Head>,
    /// How far the session that holds a lane has read, by route and lane.
    pub(crate) readers: BTreeMap<(String, i64), i64>,
}

impl View {
    pub(crate) async fn look(tables: &Tables, link: &mut Link<'_>) -> Result<Self> {
        let mut view = Self { heads: BTreeMap::new(), readers: BTreeMap::new() };
        let blocking = Find::new(&tables.route_state, doc! { "on_dead": "block" }).fields(&["_id"]);
        let blocking = link.find(blocking).await?;
        if !blocking.is_empty() {
            let routes: Vec<&str> = blocking.iter().map(|route| text(route, "_id")).collect();
            let filter = doc! {
                "status": "dead", "settled_at": { "$gte": 0 }, "route": { "$in": routes }, "key": { "$ne": Bson::Null },
            };
            let dead = Find::new(&tables.outbox, filter).hint(tables.index(ENDED));
            for document in link.find(dead.fields(&["seq", "route", "key", "lane", "event_id"])).await? {
                view.add_head(&document);
            }
        }
        let sessions = link.find(Find::new(&tables.lane_session, Document::new())).await?;
        if !sessions.is_empty() {
            let held = Find::new(&tables.lane, doc! { "session": { "$ne": Bson::Null } });
            let lanes = link.find(held.fields(&["route", "lane", "session"])).await?;
            for lane in &lanes {
                let is_its = |session: &&Document| {
                    session.get("session") == lane.get("session")
                        && text(session, "route") == text(lane, "route")
                };
                if let Some(session) = sessions.iter().find(is_its) {
                    let place = (text(lane, "route").to_owned(), number(lane, "lane"));
                    view.readers.insert(place, number(session, "handed"));
                }
            }
        }
        Ok(view)
    }

    fn add_head(&mut self, dead: &Document) {
        let event_id = match dead.get("event_id") {
            Some(Bson::Binary(id)) => uuid_of(id).map(EventId),
            _ => None,
        };
        let head = Head { seq: number(dead, "seq"), lane: number(dead, "lane"), event_id };
        let place = (text(dead, "route").to_owned(), text(dead, "key").to_owned());
        match self.heads.get(&place) {
            Some(first) if first.seq < head.seq => {}
            _ => drop(self.heads.insert(place, head)),
        }
    }

    /// What every entry of this standing has, so that not all of what is open is read for it, and the index that has it if
    /// it is another one. `None`: there is no such entry.
    fn among(&self, standing: Option<Standing>) -> Option<(Document, Option<&'static str>)> {
        match standing {
            Some(Standing::Blocked) => {
                let first = self.heads.values().map(|head| head.seq).min()?;
                // Steps of sagas are in no lane, and wait behind a dead entry of their key all the same.
                let mut lanes: BTreeSet<i32> = BTreeSet::from([i32::from(NO_LANE)]);
                lanes.extend(
                    self.heads.keys().map(|(_, key)| i32::from(lane_of(Some(key), EventId(Uuid::nil())))),
                );
                let routes: BTreeSet<&String> = self.heads.keys().map(|(route, _)| route).collect();
                let keys: BTreeSet<&String> = self.heads.keys().map(|(_, key)| key).collect();
                let list = |texts: &BTreeSet<&String>| texts.iter().copied().cloned().collect::<Vec<_>>();
                let mut among = doc! {
                    "route": { "$in": list(&routes) }, "lane": { "$in": lanes.into_iter().collect::<Vec<_>>() },
                    "seq": { "$gt": stamp_of(first) },
                };
                if keys.len() <= KEYS {
                    among.insert("key", doc! { "$in": list(&keys) });
                }
                Some((among, Some(LANE)))
            }
            Some(Standing::Is(Status::InFlight)) => {
                // Where nobody has read a lane, only what was claimed as a row is in flight.
                let claimed = doc! { "status": "in_flight" };
                let among = match self.readers.values().max() {
                    Some(handed) => doc! { "$or": [claimed, { "seq": { "$lte": stamp_of(*handed) } }] },
                    None => claimed,
                };
                Some((among, None))
            }
            _ => Some((Document::new(), None)),
        }
    }

    /// The dead entry that an entry waits behind.
    pub(crate) fn head(&self, document: &Document) -> Option<&Head> {
        let key = document.get_str("key").ok()?;
        let head = self.heads.get(&(text(document, "route").to_owned(), key.to_owned()))?;
        (head.seq < number(document, "seq")).then_some(head)
    }

    fn of(&self, document: Document, now: Timestamp) -> Seen {
        let status: Status = text(&document, "status").parse().unwrap_or(Status::InFlight);
        let is_due = document.get("due_at").and_then(number_of).is_none_or(|due| due <= now.as_micros());
        let waits = matches!(status, Status::Pending | Status::Retrying);
        let place = (text(&document, "route").to_owned(), number(&document, "lane"));
        let reader = self.readers.get(&place).filter(|_| waits);
        let head = self.head(&document).filter(|_| waits);
        let is_handed = is_due && reader.is_some_and(|handed| *handed >= number(&document, "seq"));
        let standing = match head {
            Some(_) => Standing::Blocked,
            None if is_handed => Status::InFlight.into(),
            None => status.into(),
        };
        let blocked_by = head.and_then(|head| head.event_id);
        Seen { standing, lane_held: reader.is_some(), is_due, blocked_by, document }
    }
}
