//! Heartbeats: joining, renewing, sharing, and burying the sessions that gave none.

use async_trait::async_trait;
use pillarbox_core::port::shared::share_of;
use pillarbox_core::port::{AttendRequest, Attendance, LANES, LaneHeld};
use pillarbox_core::{Fence, Result, Timestamp};
use sqlx::{Row, SqliteConnection};

use super::bury::Burial;
use super::lanes_json;
use crate::call::UnitOfWork;
use crate::claim::micros;
use crate::error::classify;
use crate::sql::{Statements, query};
use crate::store::SqliteStore;

pub(super) async fn attend(store: &SqliteStore, request: AttendRequest) -> Result<Attendance> {
    request.check()?;
    let mut step = Attend { statements: &store.statements, request: &request, buries: false };
    let now = request.now.map(Timestamp::as_micros);
    // A burial may end entries, and that must be on disk when it is reported. Nearly always there is no
    // session to bury, and a heartbeat that is lost with the machine does no harm.
    step.buries = !step.expired(now, &mut *store.reader().await?).await?.is_empty();
    if step.buries {
        return store.writer.durably(&step).await;
    }
    store.writer.together(&step).await
}

struct Attend<'a> {
    statements: &'a Statements,
    request: &'a AttendRequest,
    /// Whether to bury dead sessions. A session that dies between the look and the step is buried by the next
    /// heartbeat.
    buries: bool,
}

#[async_trait]
impl UnitOfWork for &Attend<'_> {
    type Outcome = Attendance;

    async fn run(self, tx: &mut SqliteConnection) -> Result<Attendance> {
        let now = match self.request.now {
            Some(now) => now,
            None => self.statements.now(tx).await?,
        };
        // A session that is late and not buried yet is alive: its heartbeat comes first.
        if !self.renew(now, tx).await? {
            return Ok(Attendance { lost: true, ..Attendance::default() });
        }
        let mut attendance = Attendance::default();
        if self.buries {
            let burial = Burial::of(self.request);
            for session in self.expired(Some(now.as_micros()), tx).await? {
                let deaths = burial.bury(self.statements, session, now, tx).await?;
                attendance.deaths.extend(deaths);
                attendance.buried += 1;
            }
        }
        self.share(now, &mut attendance, tx).await?;
        Ok(attendance)
    }
}

impl Attend<'_> {
    async fn expired(&self, now: Option<i64>, connection: &mut SqliteConnection) -> Result<Vec<String>> {
        let rows = query(&self.statements.lanes_expired)
            .bind(now)
            .bind(self.request.route.to_string())
            .bind(self.request.session.to_string())
            .fetch_all(connection)
            .await
            .map_err(classify)?;
        rows.iter().map(|row| row.try_get_unchecked(0).map_err(classify)).collect()
    }

    /// `false`: the session is not there any more.
    async fn renew(&self, now: Timestamp, tx: &mut SqliteConnection) -> Result<bool> {
        let route = self.request.route.to_string();
        let statement = if self.request.joins {
            let make = query(&self.statements.lanes_make).bind(route.clone());
            make.execute(&mut *tx).await.map_err(classify)?;
            &self.statements.lanes_join
        } else {
            &self.statements.lanes_renew
        };
        let done = query(statement)
            .bind(now.as_micros())
            .bind(route)
            .bind(self.request.session.to_string())
            .bind(self.request.owner.clone())
            .bind(micros(self.request.lease))
            .bind(i64::from(self.request.shares))
            .execute(tx)
            .await
            .map_err(classify)?;
        Ok(done.rows_affected() > 0)
    }

    /// Takes free lanes up to the share, and tells which are beyond it.
    async fn share(
        &self,
        now: Timestamp,
        attendance: &mut Attendance,
        tx: &mut SqliteConnection,
    ) -> Result<()> {
        let route = self.request.route.to_string();
        let sessions = query(&self.statements.lanes_sessions).bind(route.clone());
        let rows = sessions.fetch_all(&mut *tx).await.map_err(classify)?;
        let (mut sessions, mut shares) = (Vec::<String>::with_capacity(rows.len()), LANES);
        for row in &rows {
            sessions.push(row.try_get_unchecked(0).map_err(classify)?);
            // The lowest counts for all: if each went by its own, one would leave lanes that no session
            // takes.
            shares = shares.min(row.try_get_unchecked(1).map_err(classify)?);
        }
        let me = self.request.session.to_string();
        let share = share_of(&sessions, &me, shares);

        let owners = query(&self.statements.lanes_owners).bind(route.clone());
        let mut free = Vec::new();
        for row in owners.fetch_all(&mut *tx).await.map_err(classify)? {
            let lane = row.try_get_unchecked(0).map_err(classify)?;
            let owner: Option<String> = row.try_get_unchecked(1).map_err(classify)?;
            match owner {
                Some(owner) if owner == me => {
                    let fence = Fence(row.try_get_unchecked(2).map_err(classify)?);
                    attendance.lanes.push(LaneHeld { lane, fence });
                }
                // A lane is held while its session exists, so no session holds this one.
                Some(owner) if sessions.contains(&owner) => {}
                _ => free.push(lane),
            }
        }
        free.truncate(share.saturating_sub(attendance.lanes.len()));
        if !free.is_empty() {
            let taken = query(&self.statements.lanes_take)
                .bind(now.as_micros())
                .bind(route)
                .bind(me)
                .bind(lanes_json(&free)?);
            for row in taken.fetch_all(tx).await.map_err(classify)? {
                let lane = row.try_get_unchecked(0).map_err(classify)?;
                let fence = Fence(row.try_get_unchecked(1).map_err(classify)?);
                attendance.lanes.push(LaneHeld { lane, fence });
            }
            attendance.lanes.sort_unstable_by_key(|held| held.lane);
        }
        attendance.surplus = attendance.lanes.iter().skip(share).map(|held| held.lane).collect();
        Ok(())
    }
}
