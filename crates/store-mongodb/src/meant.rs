//! The entries that an operator means, by ids or by a filter, and how they stand.

use std::collections::{BTreeMap, BTreeSet};

use mongodb::bson::{Bson, Document, doc};
use pillarbox_core::port::shared::Asked;
use pillarbox_core::{EventId, NO_LANE, Result, RouteName, Standing, Status, Timestamp, lane_of};
use uuid::Uuid;

use crate::call::Link;
use crate::command::{Find, event, stamp_of};
use crate::front::Pages;
use crate::row::{number, number_of, text, uuid_of};
use crate::tables::{ENDED, EVENT, LANE, OPEN, SEQ, Tables};

/// How many entries are read at once at most.
const PAGE: i64 = 1000;
/// How many at most where little is read of each.
const LARGE_PAGE: i64 = 16 * PAGE;
/// Up to so many entries are sorted. More are read in their order.
const FEW: i64 = 1000;
/// How many keys are looked for at most by their names.
const KEYS: usize = 1000;

/// The look at entries, by the index that finds them.
pub(crate) fn find(asked: &Asked<'_>, tables: &Tables, now: Timestamp) -> Find {
    let (scope, index) = scope(asked);
    within(scope, index, asked, tables, now)
}

/// The look at those of these entries that are asked for.
fn within(scope: Document, index: &str, asked: &Asked<'_>, tables: &Tables, now: Timestamp) -> Find {
    let mut all = vec![scope];
    all.extend(narrowed(asked, now));
    Find::new(&tables.outbox, doc! { "$and": all }).hint(tables.index(index))
}

/// Which of the entries can be meant at all, and the index that has them.
fn scope(asked: &Asked<'_>) -> (Document, &'static str) {
    let rare = |status: &Status| matches!(status, Status::Dead | Status::Discarded);
    if let Some(ids) = asked.ids {
        let ids: Vec<Bson> = ids.iter().map(|id| Bson::Binary(event(*id))).collect();
        return (doc! { "event_id": { "$in": ids } }, EVENT);
    }
    let stored = any_of(&asked.statuses);
    if asked.statuses.iter().all(rare) {
        return (doc! { "status": stored, "settled_at": { "$gte": 0 } }, ENDED);
    }
    // Many delivered ones may come before them.
    if is_open(asked) {
        return (open(&asked.statuses), OPEN);
    }
    (doc! { "seq": { "$gt": stamp_of(0) }, "status": stored }, SEQ)
}

/// Whether only entries are meant that are not at their end.
fn is_open(asked: &Asked<'_>) -> bool {
    let is_live = |status: &Status| !status.is_terminal();
    asked.ids.is_none() && !asked.statuses.is_empty() && asked.statuses.iter().all(is_live)
}

fn any_of(statuses: &[Status]) -> Document {
    doc! { "$in": statuses.iter().map(|status| status.as_str()).collect::<Vec<_>>() }
}

/// Entries of these statuses that are not at their end.
fn open(statuses: &[Status]) -> Document {
    doc! { "status": any_of(statuses), "settled_at": Bson::Null }
}

/// The looks that together find what is asked, each in the order of `seq`, without going through the backlog.
async fn looks(
    asked: &Asked<'_>,
    view: &View,
    tables: &Tables,
    now: Timestamp,
    link: &mut Link<'_>,
) -> Result<Vec<Find>> {
    if !is_open(asked) {
        return Ok(vec![find(asked, tables, now)]);
    }
    let route = asked.filter.route.as_ref().map(RouteName::as_str);
    let is_asked = |place: &Document| route.is_none_or(|route| text(place, "route") == route);
    let by_lanes = |statuses: &[Status], places: Vec<Document>| -> Vec<Find> {
        let look = |place| within(doc! { "$and": [place, open(statuses)] }, LANE, asked, tables, now);
        places.into_iter().filter(is_asked).map(look).collect()
    };
    let (claimed, waiting): (Vec<Status>, Vec<Status>) =
        asked.statuses.iter().partition(|status| **status == Status::InFlight);
    match asked.filter.status {
        Some(Standing::Blocked) => return Ok(by_lanes(&waiting, view.behind_heads())),
        Some(Standing::Is(Status::InFlight)) => {
            let mut looks = by_lanes(&waiting, view.handed());
            // Relays hold few entries as rows, anywhere in the backlog.
            looks.push(within(open(&claimed), OPEN, asked, tables, now));
            return Ok(looks);
        }
        _ => {}
    }
    // Lanes tell a status only after `seq`: of a rare one they would be read to their ends. A few pending entries may come
    // after a large backlog that is retrying, and the other way round. The index of statuses tells whether they are few.
    let mut some = open(&asked.statuses);
    if let Some(route) = route {
        some.insert("route", route);
    }
    if asked.waits {
        some.insert("due_at", doc! { "$gt": now.as_micros() });
    }
    let some = Find::new(&tables.outbox, some).limit(FEW + 1).fields(&["seq"]).hint(tables.index(OPEN));
    if link.find(some).await?.len() as u64 <= FEW.unsigned_abs() {
        return Ok(vec![find(asked, tables, now)]);
    }
    // Each lane of a route is in the order of `seq`. The server merges them instead of sorting, and it does so only where
    // all fields before `seq` have given values: so each route is looked at by itself, and every lane is named.
    let lanes: Vec<i32> = asked.lanes().into_iter().map(i32::from).collect();
    let routes = match route {
        Some(route) => vec![route.to_owned()],
        None => open_routes(tables, link).await?,
    };
    let place =
        |route: String| doc! { "route": route, "lane": { "$in": &lanes }, "seq": { "$gt": stamp_of(0) } };
    Ok(by_lanes(&asked.statuses, routes.into_iter().map(place).collect()))
}

/// The routes of all entries that are not at their end: from each to the next one.
async fn open_routes(tables: &Tables, link: &mut Link<'_>) -> Result<Vec<String>> {
    let mut routes: Vec<String> = Vec::new();
    loop {
        let last = routes.last().map_or("", String::as_str);
        let next = Find::new(&tables.outbox, doc! { "route": { "$gt": last }, "settled_at": Bson::Null });
        let next = next.sort(doc! { "route": 1 }).limit(1).fields(&["route"]).hint(tables.index(LANE));
        match link.find(next).await?.first() {
            Some(found) => routes.push(text(found, "route").to_owned()),
            None => return Ok(routes),
        }
    }
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
    // What goes by another index is read at once: each page would sort all of it again.
    let (first, page_max) = match asked.limit.map(i64::from) {
        limit if !is_open(asked) => (limit.unwrap_or(0), limit.unwrap_or(0)),
        limit => {
            let page_max = if fields.is_empty() { PAGE } else { LARGE_PAGE };
            (limit.unwrap_or(page_max), page_max)
        }
    };
    let mut finds = looks(asked, &view, tables, now, link).await?;
    if !fields.is_empty() {
        finds = finds.into_iter().map(|find| find.fields(fields)).collect();
    }
    let mut pages = Pages::new(finds, first, page_max);
    let mut seen: Vec<Seen> = Vec::new();
    while asked.limit.is_none_or(|limit| (seen.len() as u64) < limit.into()) {
        let Some(document) = pages.next(link).await? else { break };
        // Where the standing is more than the status, the limit is put on what is left.
        let one = view.of(document, now);
        if asked.filter.status.is_none_or(|wanted| wanted == one.standing) {
            seen.push(one);
        }
    }
    Ok(seen)
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

    /// Where entries wait behind dead ones, by route.
    fn behind_heads(&self) -> Vec<Document> {
        let mut routes: BTreeMap<&str, Vec<(&str, i64)>> = BTreeMap::new();
        for ((route, key), head) in &self.heads {
            routes.entry(route).or_default().push((key, head.seq));
        }
        let place = |(route, heads): (&str, Vec<(&str, i64)>)| {
            let first = heads.iter().map(|(_, seq)| *seq).min().unwrap_or(0);
            let lane = |key: &str| i32::from(lane_of(Some(key), EventId(Uuid::nil())));
            let mut lanes: BTreeSet<i32> = heads.iter().map(|(key, _)| lane(key)).collect();
            // Steps of sagas are in no lane, and wait behind a dead entry of their key all the same.
            lanes.insert(i32::from(NO_LANE));
            let lanes: Vec<i32> = lanes.into_iter().collect();
            let mut place =
                doc! { "route": route, "lane": { "$in": lanes }, "seq": { "$gt": stamp_of(first) } };
            if heads.len() <= KEYS {
                let keys: Vec<&str> = heads.iter().map(|(key, _)| *key).collect();
                place.insert("key", doc! { "$in": keys });
            }
            place
        };
        routes.into_iter().map(place).collect()
    }

    /// Where sessions hold lanes, and how far they have read them at most, by route.
    fn handed(&self) -> Vec<Document> {
        let mut routes: BTreeMap<&str, (i64, Vec<i64>)> = BTreeMap::new();
        for ((route, lane), handed) in &self.readers {
            let (most, lanes) = routes.entry(route).or_default();
            *most = (*most).max(*handed);
            lanes.push(*lane);
        }
        let place = |(route, (most, lanes)): (&str, (i64, Vec<i64>))| {
            doc! { "route": route, "lane": { "$in": lanes }, "seq": { "$lte": stamp_of(most) } }
        };
        routes.into_iter().map(place).collect()
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
