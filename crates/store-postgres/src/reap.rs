//! Reaping: expired leases go back to the queue, and what has no attempts left is buried.

use pillarbox_core::port::{Death, Effect, Leases, ReapRequest, Reaped, Steps};
use pillarbox_core::{EventId, Failure, Result, RouteName, check_name};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::bind::Bind;
use crate::call::{Again, Traffic};
use crate::error::{Phase, classify};
use crate::store::PostgresStore;

impl PostgresStore {
    /// Rows, and sessions of lanes: a relay of either kind returns what the other kind left.
    pub(crate) async fn reap_leases(&self, request: ReapRequest) -> Result<Reaped> {
        let sessions = self.reap_sessions(&request).await?;
        Ok(self.reap_row_leases(request).await?.with_sessions(sessions))
    }

    pub(crate) async fn reap_row_leases(&self, request: ReapRequest) -> Result<Reaped> {
        request.check()?;
        check_name("owner", &request.owner)?;
        let routes = match &request.route {
            Some(route) => vec![route.clone()],
            None => self.open_routes().await?,
        };
        let mut reaped = Reaped::default();
        let mut left = i64::from(request.limit);
        for route in routes {
            if left == 0 {
                break;
            }
            left -= match request.effect {
                Effect::Apply => self.reap_route(&request, &route, left, &mut reaped).await?,
                Effect::DryRun => self.count_stale(&request, &route, left, &mut reaped).await?,
            };
        }
        Ok(reaped)
    }

    async fn open_routes(&self) -> Result<Vec<RouteName>> {
        let rows = self.run(Traffic::Relay, Again::Always, &self.sql().routes, Bind::new().done()?).await?;
        rows.iter()
            .map(|row| row.try_get::<String, _>(0).map_err(|error| classify(error, Phase::Before)))
            .map(|name| name.and_then(RouteName::new))
            .collect()
    }

    /// How many rows of the limit it took.
    async fn reap_route(
        &self,
        request: &ReapRequest,
        route: &RouteName,
        limit: i64,
        reaped: &mut Reaped,
    ) -> Result<i64> {
        let bind = bind(request, route, limit)
            .text(&Failure::lease_expired().to_string())
            .text(&request.owner)
            .value(request.leases == Leases::Impossible)
            .value(request.steps == Steps::Take);
        let rows = self.run(Traffic::Relay, Again::IfUndone, &self.sql().reap, bind.done()?).await?;
        for row in &rows {
            read(row, route, reaped).map_err(|error| classify(error, Phase::Before))?;
        }
        // The last row is about what waits.
        Ok(i64::try_from(rows.len().saturating_sub(1)).unwrap_or(limit))
    }

    async fn count_stale(
        &self,
        request: &ReapRequest,
        route: &RouteName,
        limit: i64,
        reaped: &mut Reaped,
    ) -> Result<i64> {
        let bind = bind(request, route, limit).value(request.steps == Steps::Take);
        let rows = self.run(Traffic::Relay, Again::Always, &self.sql().stale, bind.done()?).await?;
        let number = |column: usize| -> Result<i64> {
            rows.first()
                .ok_or(sqlx::Error::RowNotFound)
                .and_then(|row| row.try_get(column))
                .map_err(|error| classify(error, Phase::Before))
        };
        reaped.stale += u64::try_from(number(0)?).unwrap_or(0);
        number(1)
    }
}

fn bind(request: &ReapRequest, route: &RouteName, limit: i64) -> Bind {
    Bind::new().text(route.as_str()).at(request.now).value(request.max_attempts.map(i64::from)).number(limit)
}

fn read(row: &PgRow, route: &RouteName, reaped: &mut Reaped) -> sqlx::Result<()> {
    if let Some(suspects) = row.try_get::<Option<bool>, _>(6)? {
        reaped.suspects |= suspects;
        return Ok(());
    }
    let (leased, spent): (bool, bool) = (row.try_get(3)?, row.try_get(4)?);
    reaped.stale += u64::from(leased);
    if !spent {
        reaped.released += 1;
        return Ok(());
    }
    reaped.dead.push(Death {
        event_id: EventId(row.try_get(0)?),
        route: route.clone(),
        event_type: row.try_get(1)?,
        attempts: u32::try_from(row.try_get::<i32, _>(2)?).unwrap_or(0),
        failure: Failure::parse(row.try_get(5)?),
    });
    Ok(())
}
