//! Heartbeats: joining, renewing, sharing, burying the sessions that gave none, and giving lanes up.

use async_trait::async_trait;
use pillarbox_core::port::shared::{Columns, share_of};
use pillarbox_core::port::{AttendRequest, Attendance, HandOverRequest, LANES, LaneHeld, SessionId};
use pillarbox_core::{Fence, Result, RouteName, Timestamp};
use sqlx::MySqlConnection;
use uuid::Uuid;

use super::bury::Burial;
use super::session;
use crate::bind::Bind;
use crate::call::{Traffic, UnitOfWork};
use crate::claim::micros;
use crate::row::Cells;
use crate::sql::Statements;
use crate::store::MySqlStore;

pub(super) async fn attend(store: &MySqlStore, request: AttendRequest) -> Result<Attendance> {
    request.check()?;
    if request.joins {
        // What all sessions of a route lock, and what they share; made once, and by itself.
        let route = Bind::new().bytes(request.route.as_str());
        store.execute(&store.statements.route_make.with(route.clone())?).await?;
        store.execute(&store.statements.lanes_make.with(route)?).await?;
    }
    store.together(Traffic::Relay, &Attend { statements: &store.statements, request: &request }).await
}

struct Attend<'a> {
    statements: &'a Statements,
    request: &'a AttendRequest,
}

#[async_trait]
impl UnitOfWork for Attend<'_> {
    type Outcome = Attendance;

    async fn run(&self, tx: &mut MySqlConnection) -> Result<Attendance> {
        let (statements, request) = (self.statements, self.request);
        let route = Bind::new().bytes(request.route.as_str());
        statements.lanes_alone.with(route)?.rows(tx).await?;
        let now = statements.now_or(request.now, tx).await?;
        // A session that is late and not buried yet is alive: its heartbeat comes first.
        if !self.renew(now, tx).await? {
            return Ok(Attendance { lost: true, ..Attendance::default() });
        }
        let mut attendance = Attendance::default();
        let burial = Burial::of(request);
        for (dead, _) in burial.expired(statements, now, Some(request.session), tx).await? {
            if let Some(deaths) = burial.bury(statements, dead, now, tx).await? {
                attendance.deaths.extend(deaths);
                attendance.buried += 1;
            }
        }
        self.share(now, &mut attendance, tx).await?;
        Ok(attendance)
    }
}

impl Attend<'_> {
    /// `false`: the session is not there any more.
    async fn renew(&self, now: Timestamp, tx: &mut MySqlConnection) -> Result<bool> {
        let request = self.request;
        let statement =
            if request.joins { &self.statements.lanes_join } else { &self.statements.lanes_renew };
        let bind = Bind::new()
            .at(Some(now))
            .bytes(request.route.as_str())
            .bytes(*request.session.0.as_bytes())
            .text(&request.owner)
            .number(micros(request.lease))
            .number(request.shares.into());
        Ok(statement.with(bind)?.execute(tx).await?.rows > 0)
    }

    /// Takes free lanes up to the share, and tells which are beyond it.
    async fn share(
        &self,
        now: Timestamp,
        attendance: &mut Attendance,
        tx: &mut MySqlConnection,
    ) -> Result<()> {
        let (me, statements) = (self.request.session.0, self.statements);
        let route = Bind::new().bytes(self.request.route.as_str());
        let (mut sessions, mut shares) = (Vec::<Uuid>::new(), LANES);
        for row in &statements.lanes_sessions.with(route.clone())?.rows(tx).await? {
            let mut row = Cells::of(row);
            sessions.extend(row.uuid()?);
            // The lowest counts for all: if each went by its own, one would leave lanes that no session takes.
            shares = shares.min(u8::try_from(row.number()?).unwrap_or(LANES));
        }
        let share = share_of(&sessions, &me, shares);
        let mut free = Vec::new();
        let owners = statements.lanes_owners.with(route.clone())?.rows(tx).await?;
        for row in &owners {
            let mut row = Cells::of(row);
            let (lane, owner) = (u8::try_from(row.number()?).unwrap_or(u8::MAX), row.uuid()?);
            let fence = Fence(row.number()?);
            match owner {
                Some(owner) if owner == me => attendance.lanes.push(LaneHeld { lane, fence }),
                // A lane is held while its session exists.
                Some(owner) if sessions.contains(&owner) => {}
                _ => free.push(LaneHeld { lane, fence: Fence((fence.0 + 1).max(now.as_micros())) }),
            }
        }
        free.truncate(share.saturating_sub(attendance.lanes.len()));
        if !free.is_empty() {
            let lanes: Vec<u8> = free.iter().map(|held| held.lane).collect();
            let bind = Bind::new().at(Some(now)).bytes(self.request.route.as_str()).bytes(*me.as_bytes());
            statements.lanes_take.with(bind.json(&lanes))?.execute(tx).await?;
            attendance.lanes.extend(free);
            attendance.lanes.sort_unstable_by_key(|held| held.lane);
        }
        attendance.surplus = attendance.lanes.iter().skip(share).map(|held| held.lane).collect();
        Ok(())
    }
}

pub(super) async fn hand_over(store: &MySqlStore, request: HandOverRequest) -> Result<()> {
    match &request.lanes {
        Some(lanes) if lanes.is_empty() => Ok(()),
        Some(lanes) => {
            let bind = session(&request.route, request.session).json(lanes);
            store.execute(&store.statements.lanes_free.with(bind)?).await.map(drop)
        }
        None => {
            let leave =
                Leave { statements: &store.statements, route: &request.route, session: request.session };
            store.together(Traffic::Relay, &leave).await
        }
    }
}

struct Leave<'a> {
    statements: &'a Statements,
    route: &'a RouteName,
    session: SessionId,
}

#[async_trait]
impl UnitOfWork for Leave<'_> {
    type Outcome = ();

    async fn run(&self, tx: &mut MySqlConnection) -> Result<()> {
        leave(self.statements, self.route, self.session, tx).await
    }
}

/// Ends a session and frees its lanes.
pub(super) async fn leave(
    statements: &Statements,
    route: &RouteName,
    id: SessionId,
    tx: &mut MySqlConnection,
) -> Result<()> {
    let bind = session(route, id);
    statements.lanes_free.with(bind.clone().optional_text(None::<String>))?.execute(tx).await?;
    statements.lanes_leave.with(bind)?.execute(tx).await.map(drop)
}
