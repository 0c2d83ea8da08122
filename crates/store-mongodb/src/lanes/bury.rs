//! Burying a session: what it may have had in flight has spent one attempt, and its lanes are free.

use std::collections::BTreeSet;

use async_trait::async_trait;
use mongodb::bson::{Bson, Document, doc};
use pillarbox_core::port::shared::{ReadEntry, in_flight, session_expired};
use pillarbox_core::port::{AttendRequest, Death, Effect, ReapRequest, Reaped, SessionId};
use pillarbox_core::{CRASHES_IN_COMPANY, Error, ErrorKind, Result, RouteName, Timestamp};

use super::attend::{leave, owner};
use super::{read, session, waiting};
use crate::call::{Link, Traffic, UnitOfWork};
use crate::change::audit;
use crate::command::{Change, Find, binary, event, insert, stamp_of, stamps, update};
use crate::row::{Cells, number, number_of, text};
use crate::store::MongoStore;
use crate::tables::{LANE, SEQ, Tables};

/// Buries sessions of lanes for a relay that reads the routes by rows, and counts those that are alive.
pub(crate) async fn reap(store: &MongoStore, request: &ReapRequest) -> Result<Reaped> {
    let reap = ReapSessions { tables: &store.tables, request };
    // Nearly always there is no session to bury; a look needs no transaction.
    let mut link = store.link(Traffic::Relay);
    let sessions = sessions(&store.tables, request.route.as_ref(), &mut link).await?;
    let mut reaped = Reaped::default();
    if !sessions.is_empty() {
        let now = link.now_or(request.now).await?;
        reaped.stale = sessions.iter().filter(|session| is_expired(session, now)).count() as u64;
    }
    if reaped.stale > 0 && request.effect == Effect::Apply {
        reaped.dead = store.together(Traffic::Relay, &reap).await?;
    }
    let left = self::sessions(&store.tables, request.route.as_ref(), &mut link).await?.len();
    reaped.lane_sessions = u32::try_from(left).unwrap_or(u32::MAX);
    Ok(reaped)
}

/// The sessions of a route, or of all, in the order of joining.
async fn sessions(tables: &Tables, route: Option<&RouteName>, link: &mut Link<'_>) -> Result<Vec<Document>> {
    let filter = route.map_or_else(Document::new, |route| doc! { "route": route.as_str() });
    link.find(Find::new(&tables.lane_session, filter).sort(doc! { "route": 1, "rank": 1 })).await
}

/// Whether the lease of a session has ended, or begins later than it is long because the clock was set back.
fn is_expired(session: &Document, now: Timestamp) -> bool {
    let (at, begins, ends) = (now.as_micros(), number(session, "leased_at"), number(session, "lease_until"));
    ends <= at || begins - at > ends - begins
}

struct ReapSessions<'a> {
    tables: &'a Tables,
    request: &'a ReapRequest,
}

#[async_trait]
impl UnitOfWork for ReapSessions<'_> {
    type Outcome = Vec<Death>;

    async fn run(&self, tx: &mut Link<'_>) -> Result<Vec<Death>> {
        let request = self.request;
        let now = tx.now_or(request.now).await?;
        let burial = Burial {
            route: request.route.as_ref(),
            owner: &request.owner,
            // The allowed attempts are not known: bury nothing.
            max_attempts: request.max_attempts.unwrap_or(u32::MAX),
            // It is unknown what that relay did with dead entries: every entry that may have been in flight counts.
            skips_dead: true,
        };
        let mut deaths = Vec::new();
        for (session, route) in burial.expired(self.tables, now, None, tx).await? {
            let burial = Burial { route: Some(&route), ..burial };
            deaths.extend(burial.bury(self.tables, session, now, tx).await?.into_iter().flatten());
        }
        Ok(deaths)
    }
}

/// The burial of sessions: of which route, for whom, and by which rules.
#[derive(Clone, Copy)]
pub(super) struct Burial<'a> {
    route: Option<&'a RouteName>,
    owner: &'a str,
    max_attempts: u32,
    skips_dead: bool,
}

impl<'a> Burial<'a> {
    pub(super) fn of(request: &'a AttendRequest) -> Self {
        let AttendRequest { route, owner, max_attempts, skips_dead, .. } = request;
        Self { route: Some(route), owner, max_attempts: *max_attempts, skips_dead: *skips_dead }
    }

    /// The sessions whose lease has ended, but for the one that asks.
    pub(super) async fn expired(
        &self,
        tables: &Tables,
        now: Timestamp,
        but: Option<SessionId>,
        tx: &mut Link<'_>,
    ) -> Result<Vec<(SessionId, RouteName)>> {
        let mut found = Vec::new();
        for document in sessions(tables, self.route, tx).await? {
            let id = owner(&document).map(SessionId).filter(|id| Some(*id) != but);
            if let Some(id) = id.filter(|_| is_expired(&document, now)) {
                found.push((id, RouteName::new(text(&document, "route"))?));
            }
        }
        Ok(found)
    }

    /// Buries one session, and tells what died with it. `None`: it was renewed, or another relay has buried it.
    pub(super) async fn bury(
        &self,
        tables: &Tables,
        id: SessionId,
        now: Timestamp,
        tx: &mut Link<'_>,
    ) -> Result<Option<Vec<Death>>> {
        let Some(route) = self.route else { return Ok(None) };
        let found = tx.find(Find::new(&tables.lane_session, session(route, id))).await?;
        let Some(found) = found.first().filter(|found| is_expired(found, now)) else { return Ok(None) };
        let read = self.read(tables, id, found, now, tx).await?;
        let lanes: BTreeSet<u8> = read.iter().map(|entry| entry.lane).collect();
        let heads = if self.skips_dead {
            Vec::new()
        } else {
            read::heads_of(tables, route, &lanes.into_iter().collect::<Vec<_>>(), tx).await?
        };
        let in_flight = in_flight(read, heads);
        self.spend(tables, &in_flight, now, tx).await?;
        leave(tables, route, id, tx).await?;
        Ok(Some(in_flight.into_iter().filter(|entry| entry.spent).map(|entry| entry.death).collect()))
    }

    /// What a session has read and not settled: what it may have been delivering.
    async fn read(
        &self,
        tables: &Tables,
        id: SessionId,
        found: &Document,
        now: Timestamp,
        tx: &mut Link<'_>,
    ) -> Result<Vec<ReadEntry>> {
        let Some(route) = self.route else { return Ok(vec![]) };
        let lanes = Find::new(&tables.lane, doc! { "route": route.as_str(), "session": binary(id.0) });
        let lanes = tx.find(lanes.fields(&["lane"])).await?;
        let lanes: Vec<i64> = lanes.iter().map(|lane| number(lane, "lane")).collect();
        let mut filter = doc! { "route": route.as_str(), "lane": { "$in": lanes } };
        filter.insert("seq", doc! { "$lte": stamp_of(number(found, "handed")) });
        filter.extend(waiting());
        let find = Find::new(&tables.outbox, filter).hint(tables.index(LANE));
        let find = find.fields(&[
            "seq",
            "event_id",
            "type",
            "key",
            "lane",
            "attempts",
            "crashes",
            "max_attempts",
            "due_at",
            "status",
        ]);
        let only: Option<BTreeSet<i64>> =
            found.get_array("isolated").ok().map(|only| only.iter().filter_map(number_of).collect());
        let mut read = Vec::new();
        for document in tx.find(find).await? {
            if only.as_ref().is_some_and(|only| !only.contains(&number(&document, "seq"))) {
                continue;
            }
            let attempts = number(&document, "attempts") + 1;
            let counted = attempts - (number(&document, "crashes") + 1).min(CRASHES_IN_COMPANY.into());
            let own = document.get("max_attempts").and_then(number_of);
            let spent = counted >= own.unwrap_or(self.max_attempts.into());
            let due = document.get("due_at").and_then(number_of);
            // A suspect is in flight only if the session said so: otherwise it waits, and so does what is behind it.
            let suspect = number(&document, "crashes") > 0 && document.get_str("status") == Ok("retrying");
            let due = due.map_or(only.is_some() || !suspect, |due| due <= now.as_micros());
            let value = |name: &str| document.get(name).cloned().unwrap_or(Bson::Null);
            let mut row = Cells::values(vec![
                value("seq"),
                value("event_id"),
                value("type"),
                value("key"),
                value("lane"),
                attempts.into(),
                spent.into(),
                due.into(),
            ]);
            read.push(ReadEntry::read(&mut row, route)?);
        }
        Ok(read)
    }

    /// Counts the attempt that the session may have made, and buries what has none left.
    async fn spend(
        &self,
        tables: &Tables,
        entries: &[ReadEntry],
        now: Timestamp,
        tx: &mut Link<'_>,
    ) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let (at, error) = (now.as_micros(), session_expired().to_string());
        let dead = |entry: &ReadEntry| {
            let mut record = audit(at, "dead", self.owner);
            record.insert("route", entry.death.route.as_str());
            record.insert("event_id", event(entry.death.event_id));
            record.insert("detail", &error);
            record
        };
        let records: Vec<Document> = entries.iter().filter(|entry| entry.spent).map(dead).collect();
        // The audit record comes before the status that it explains.
        if !records.is_empty() {
            tx.write(insert(&tables.audit, records)).await?;
        }
        let change = |spent: bool| {
            let mut set = doc! {
                "status": if spent { "dead" } else { "retrying" }, "last_error": &error, "last_attempt_at": at,
            };
            if spent {
                set.insert("settled_at", at);
            }
            let seqs = entries.iter().filter(|entry| entry.spent == spent).map(|entry| entry.seq);
            let mut filter = doc! { "seq": { "$in": stamps(seqs) } };
            filter.extend(waiting());
            let count = doc! { "attempts": 1, "crashes": 1 };
            Change::all(filter, doc! { "$set": set, "$inc": count, "$unset": { "due_at": "" } })
                .hint(tables.index(SEQ))
        };
        let done = tx.write(update(&tables.outbox, [change(true), change(false)])).await?;
        if done.found != entries.len() as u64 {
            return Err(Error::new(
                ErrorKind::Contention,
                "an entry changed while its session was buried; try again",
            ));
        }
        Ok(())
    }
}
