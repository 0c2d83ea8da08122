//! Heartbeats: joining, renewing, sharing, burying the sessions that gave none, and giving lanes up.

use async_trait::async_trait;
use mongodb::bson::{Bson, Document, doc};
use pillarbox_core::port::shared::share_of;
use pillarbox_core::port::{AttendRequest, Attendance, HandOverRequest, LANES, LaneHeld, SessionId};
use pillarbox_core::{Fence, Result, RouteName, Timestamp};
use uuid::Uuid;

use super::bury::Burial;
use super::session;
use crate::call::{Link, Traffic, UnitOfWork};
use crate::claim::micros;
use crate::command::{Change, Find, binary, delete, update};
use crate::row::{number, number_of, uuid_of};
use crate::store::MongoStore;
use crate::tables::Tables;

pub(super) async fn attend(store: &MongoStore, request: AttendRequest) -> Result<Attendance> {
    request.check()?;
    if request.joins {
        // What all sessions of a route write, and what they share; made once, and by itself.
        store.make_route(&request.route).await?;
        store.execute(make_lanes(&store.tables, &request.route)).await?;
    }
    store.together(Traffic::Relay, &Attend { tables: &store.tables, request: &request }).await
}

/// The lanes of a route; made once.
fn make_lanes(tables: &Tables, route: &RouteName) -> Document {
    let lane = |lane: u8| {
        let (route, lane) = (route.as_str(), i32::from(lane));
        let made =
            doc! { "route": route, "lane": lane, "session": Bson::Null, "fence": 0_i64, "revision": 0_i64 };
        Change::upsert(doc! { "_id": { "route": route, "lane": lane } }, doc! { "$setOnInsert": made })
    };
    update(&tables.lane, (0..LANES).map(lane))
}

struct Attend<'a> {
    tables: &'a Tables,
    request: &'a AttendRequest,
}

/// How the route is, now that this transaction has it alone.
struct Turn {
    number: i64,
    is_paused: bool,
}

#[async_trait]
impl UnitOfWork for Attend<'_> {
    type Outcome = Attendance;

    async fn run(&self, tx: &mut Link<'_>) -> Result<Attendance> {
        let (tables, request) = (self.tables, self.request);
        let turn = self.turn(tx).await?;
        let now = tx.now_or(request.now).await?;
        // A session that is late and not buried yet is alive: its heartbeat comes first.
        if !self.renew(now, &turn, tx).await? {
            return Ok(Attendance { lost: true, ..Attendance::default() });
        }
        let mut attendance = Attendance::default();
        let burial = Burial::of(request);
        for (dead, _) in burial.expired(tables, now, Some(request.session), tx).await? {
            if let Some(deaths) = burial.bury(tables, dead, now, tx).await? {
                attendance.deaths.extend(deaths);
                attendance.buried += 1;
            }
        }
        self.share(now, &turn, &mut attendance, tx).await?;
        Ok(attendance)
    }
}

impl Attend<'_> {
    /// Has the route alone: of two transactions that do this, one is rolled back.
    async fn turn(&self, tx: &mut Link<'_>) -> Result<Turn> {
        let route = doc! { "_id": self.request.route.as_str() };
        let change = Change::upsert(route.clone(), doc! { "$inc": { "turns": 1_i64 } });
        tx.write(update(&self.tables.route_state, [change])).await?;
        let found = tx.find(Find::new(&self.tables.route_state, route)).await?;
        let found = found.first().cloned().unwrap_or_default();
        let is_paused = found.get("paused_at").and_then(number_of).is_some();
        Ok(Turn { number: number(&found, "turns"), is_paused })
    }

    /// `false`: the session is not there any more.
    async fn renew(&self, now: Timestamp, turn: &Turn, tx: &mut Link<'_>) -> Result<bool> {
        let (request, at) = (self.request, now.as_micros());
        let filter = session(&request.route, request.session);
        let set = doc! {
            "owner": &request.owner,
            "leased_at": at,
            "lease_until": at.saturating_add(micros(request.lease)),
            "shares": i32::from(request.shares),
        };
        let change = if request.joins {
            let made = doc! {
                "rank": turn.number, "route": request.route.as_str(), "session": binary(request.session.0),
                "handed": 0_i64, "isolated": Bson::Null,
            };
            Change::upsert(filter, doc! { "$set": set, "$setOnInsert": made })
        } else {
            Change::all(filter, doc! { "$set": set })
        };
        Ok(tx.write(update(&self.tables.lane_session, [change])).await?.found > 0)
    }

    /// Takes free lanes up to the share, and tells which are beyond it.
    async fn share(
        &self,
        now: Timestamp,
        turn: &Turn,
        attendance: &mut Attendance,
        tx: &mut Link<'_>,
    ) -> Result<()> {
        let (me, tables, route) = (self.request.session.0, self.tables, self.request.route.as_str());
        let (mut sessions, mut shares) = (Vec::<Uuid>::new(), LANES);
        let find = Find::new(&tables.lane_session, doc! { "route": route }).sort(doc! { "rank": 1 });
        for document in tx.find(find).await? {
            sessions.extend(owner(&document));
            // The lowest counts for all: if each went by its own, one would leave lanes that no session takes.
            shares = shares.min(u8::try_from(number(&document, "shares")).unwrap_or(LANES));
        }
        let share = share_of(&sessions, &me, if turn.is_paused { 0 } else { shares });
        let mut free = Vec::new();
        let find = Find::new(&tables.lane, doc! { "route": route }).sort(doc! { "lane": 1 });
        for document in tx.find(find).await? {
            let lane = u8::try_from(number(&document, "lane")).unwrap_or(u8::MAX);
            let fence = Fence(number(&document, "fence"));
            match owner(&document) {
                Some(owner) if owner == me => attendance.lanes.push(LaneHeld { lane, fence }),
                // A lane is held while its session exists.
                Some(owner) if sessions.contains(&owner) => {}
                _ => free.push(LaneHeld { lane, fence: Fence((fence.0 + 1).max(now.as_micros())) }),
            }
        }
        free.truncate(share.saturating_sub(attendance.lanes.len()));
        if !free.is_empty() {
            let take = |held: &LaneHeld| {
                let set = doc! { "session": binary(me), "fence": held.fence.0 };
                let filter = doc! { "route": route, "lane": i32::from(held.lane) };
                Change::all(filter, doc! { "$set": set })
            };
            tx.write(update(&tables.lane, free.iter().map(take))).await?;
            attendance.lanes.extend(free);
            attendance.lanes.sort_unstable_by_key(|held| held.lane);
        }
        attendance.surplus = attendance.lanes.iter().skip(share).map(|held| held.lane).collect();
        Ok(())
    }
}

/// The session that a document names.
pub(super) fn owner(document: &Document) -> Option<Uuid> {
    match document.get("session") {
        Some(Bson::Binary(session)) => uuid_of(session),
        _ => None,
    }
}

pub(super) async fn hand_over(store: &MongoStore, request: HandOverRequest) -> Result<()> {
    match &request.lanes {
        Some(lanes) if lanes.is_empty() => Ok(()),
        Some(lanes) => {
            let lanes: Vec<i32> = lanes.iter().copied().map(i32::from).collect();
            let free =
                free(&store.tables, &request.route, request.session, doc! { "lane": { "$in": lanes } });
            store.execute(free).await.map(drop)
        }
        None => {
            let leave = Leave { tables: &store.tables, route: &request.route, session: request.session };
            store.together(Traffic::Relay, &leave).await
        }
    }
}

/// Frees lanes that a session holds. Their fence stays until the next owner.
fn free(tables: &Tables, route: &RouteName, id: SessionId, which: Document) -> Document {
    let mut filter = doc! { "route": route.as_str(), "session": binary(id.0) };
    filter.extend(which);
    update(&tables.lane, [Change::all(filter, doc! { "$set": { "session": Bson::Null } })])
}

struct Leave<'a> {
    tables: &'a Tables,
    route: &'a RouteName,
    session: SessionId,
}

#[async_trait]
impl UnitOfWork for Leave<'_> {
    type Outcome = ();

    async fn run(&self, tx: &mut Link<'_>) -> Result<()> {
        leave(self.tables, self.route, self.session, tx).await
    }
}

/// Ends a session and frees its lanes.
pub(super) async fn leave(
    tables: &Tables,
    route: &RouteName,
    id: SessionId,
    tx: &mut Link<'_>,
) -> Result<()> {
    tx.write(free(tables, route, id, Document::new())).await?;
    tx.write(delete(&tables.lane_session, session(route, id))).await.map(drop)
}
