//! Heartbeats: joining, renewing, sharing, burying the sessions that gave none, and leaving.

use std::collections::BTreeSet;

use pillarbox_core::port::{
    AttendRequest, Attendance, Death, Effect, HandOverRequest, LaneHeld, ReapRequest, Reaped,
};
use pillarbox_core::{EventId, Failure, FailureKind, Fence, Result, RouteName, Timestamp};
use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::mend::is_damage;
use super::numbers;
use crate::bind::Bind;
use crate::call::{Again, Traffic, Unit};
use crate::claim::micros;
use crate::error::{Phase, classify};
use crate::store::PostgresStore;

impl PostgresStore {
    /// One transaction of several statements, each of which must see what others did before it: every session
    /// that attends to the same route waits in the first one.
    pub(crate) async fn attend_lanes(&self, request: AttendRequest) -> Result<Attendance> {
        request.check()?;
        match self.attend_once(&request).await {
            Err(error) if is_damage(&error) => {
                // Whatever is damaged: only if the sessions are, something is done about it.
                if let Some(damage) = self.session_damage().await? {
                    self.mend_sessions(&damage).await?;
                }
                self.attend_once(&request).await
            }
            answer => answer,
        }
    }

    async fn attend_once(&self, request: &AttendRequest) -> Result<Attendance> {
        let mut unit = self.unit(Traffic::Reserved).await?;
        let attendance = self.attend_in(&mut unit, request).await?;
        unit.commit(Phase::Committing).await?;
        if request.joins {
            // A claim by rows may have begun before: what it takes has to be there when this session reads.
            let arguments = Bind::new().done()?;
            self.run(Traffic::Reserved, Again::Always, &self.sql().lanes_settled, arguments).await?;
        }
        Ok(attendance)
    }

    async fn attend_in(&self, unit: &mut Unit, request: &AttendRequest) -> Result<Attendance> {
        let lost = Attendance { lost: true, ..Attendance::default() };
        let route = || Bind::new().text(request.route.as_str());
        let known = unit.rows(&self.sql().lanes_lock, route().done()?).await?;
        if known.is_empty() {
            if !request.joins {
                return Ok(lost);
            }
            unit.rows(&self.sql().lanes_make, route().done()?).await?;
            unit.rows(&self.sql().lanes_lock, route().done()?).await?;
        }
        let sign = route()
            .value(request.session.0)
            .text(&request.owner)
            .at(request.now)
            .number(micros(request.lease))
            .number(request.shares.into())
            .done()?;
        if unit.rows(&self.sql().lanes_renew, sign.clone()).await?.is_empty() {
            if !request.joins {
                return Ok(lost);
            }
            unit.rows(&self.sql().lanes_join, sign).await?;
        }
        let (buried, deaths) = self.bury(unit, &Burial::of(request)).await?;
        let mut attendance = Attendance { buried, deaths, ..Attendance::default() };
        self.share(unit, request, &mut attendance).await?;
        Ok(attendance)
    }

    /// Buries sessions of lanes for a relay that reads the routes by rows, and counts those that are alive.
    pub(crate) async fn reap_sessions(&self, request: &ReapRequest) -> Result<Reaped> {
        let route = request.route.as_ref().map(|route| route.as_str().to_owned());
        let arguments = Bind::new().value(route).at(request.now).done()?;
        let rows = self.run(Traffic::Relay, Again::Always, &self.sql().lanes_live, arguments).await?;
        let mut reaped = Reaped::default();
        let mut routes = BTreeSet::new();
        for row in &rows {
            let (route, over) = live(row).map_err(|error| classify(error, Phase::Before))?;
            if over {
                reaped.stale += 1;
                routes.insert(route);
            } else {
                reaped.lane_sessions += 1;
            }
        }
        if request.effect == Effect::DryRun {
            return Ok(reaped);
        }
        for route in routes {
            let route = RouteName::new(route)?;
            let burial = Burial {
                route: &route,
                session: None,
                owner: &request.owner,
                // The allowed attempts are not known: bury nothing.
                max_attempts: request.max_attempts.unwrap_or(u32::MAX),
                // It is unknown what that relay did with dead entries: every entry that may have been in
                // flight counts.
                skips_dead: true,
                now: request.now,
            };
            let mut unit = self.unit(Traffic::Relay).await?;
            unit.rows(&self.sql().lanes_lock, Bind::new().text(route.as_str()).done()?).await?;
            let (_, deaths) = self.bury(&mut unit, &burial).await?;
            unit.commit(Phase::Committing).await?;
            reaped.dead.extend(deaths);
        }
        Ok(reaped)
    }

    /// How many sessions were buried, and what died with them.
    async fn bury(&self, unit: &mut Unit, request: &Burial<'_>) -> Result<(u32, Vec<Death>)> {
        let arguments =
            Bind::new().text(request.route.as_str()).value(request.session).at(request.now).done()?;
        let expired = unit.rows(&self.sql().lanes_expired, arguments).await?;
        if expired.is_empty() {
            return Ok((0, vec![]));
        }
        let buried = u32::try_from(expired.len()).unwrap_or(u32::MAX);
        let sessions: sqlx::Result<Vec<Uuid>> = expired.iter().map(|row| row.try_get(0)).collect();
        let sessions = sessions.map_err(|error| classify(error, Phase::Before))?;
        let failure = Failure::new(
            FailureKind::LeaseExpired,
            "lease_expired",
            "its relay did not renew its lease in time",
        );
        let arguments = Bind::new()
            .text(request.route.as_str())
            .value(sessions)
            .at(request.now)
            .number(request.max_attempts.into())
            .text(&failure.to_string())
            .text(request.owner)
            .value(request.skips_dead)
            .done()?;
        let rows = unit.rows(&self.sql().lanes_bury, arguments).await?;
        let deaths: sqlx::Result<_> = rows.iter().map(|row| death(row, request.route, &failure)).collect();
        Ok((buried, deaths.map_err(|error| classify(error, Phase::Before))?))
    }

    async fn share(
        &self,
        unit: &mut Unit,
        request: &AttendRequest,
        attendance: &mut Attendance,
    ) -> Result<()> {
        let arguments = Bind::new()
            .text(request.route.as_str())
            .value(request.session.0)
            .at(request.now)
            .value(!attendance.deaths.is_empty())
            .done()?;
        for row in unit.rows(&self.sql().lanes_share, arguments).await? {
            let (held, share) = held(&row).map_err(|error| classify(error, Phase::Before))?;
            if attendance.lanes.len() >= share {
                attendance.surplus.push(held.lane);
            }
            attendance.lanes.push(held);
        }
        Ok(())
    }

    pub(crate) async fn hand_lanes_over(&self, request: HandOverRequest) -> Result<()> {
        let bind = Bind::new().text(request.route.as_str()).value(request.session.0);
        let (sql, bind) = match &request.lanes {
            Some(lanes) => (&self.sql().lanes_hand_over, bind.value(numbers(lanes))),
            None => (&self.sql().lanes_leave, bind),
        };
        self.run(Traffic::Reserved, Again::Always, sql, bind.done()?).await.map(drop)
    }
}

/// The burial of sessions of a route: for whom, and by which rules.
struct Burial<'a> {
    route: &'a RouteName,
    /// The session that is alive.
    session: Option<Uuid>,
    owner: &'a str,
    max_attempts: u32,
    skips_dead: bool,
    now: Option<Timestamp>,
}

impl<'a> Burial<'a> {
    fn of(request: &'a AttendRequest) -> Self {
        let AttendRequest { route, owner, max_attempts, skips_dead, now, .. } = request;
        let session = Some(request.session.0);
        Self { route, session, owner, max_attempts: *max_attempts, skips_dead: *skips_dead, now: *now }
    }
}

/// A route that a session reads by lanes, and whether its lease has ended.
fn live(row: &PgRow) -> sqlx::Result<(String, bool)> {
    Ok((row.try_get(0)?, row.try_get(1)?))
}

fn death(row: &PgRow, route: &RouteName, failure: &Failure) -> sqlx::Result<Death> {
    Ok(Death {
        event_id: EventId(row.try_get(0)?),
        route: route.clone(),
        event_type: row.try_get(1)?,
        attempts: u32::try_from(row.try_get::<i32, _>(2)?).unwrap_or(0),
        failure: failure.clone(),
    })
}

/// A lane, and how many its session is to have.
fn held(row: &PgRow) -> sqlx::Result<(LaneHeld, usize)> {
    let lane = u8::try_from(row.try_get::<i16, _>(0)?).unwrap_or(u8::MAX);
    let share = usize::try_from(row.try_get::<i64, _>(2)?).unwrap_or(0);
    Ok((LaneHeld { lane, fence: Fence(row.try_get(1)?) }, share))
}
