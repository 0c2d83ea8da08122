//! Returning expired leases, and burying what has no attempts left.

use async_trait::async_trait;
use pillarbox_core::port::{Death, Effect, Leases, ReapRequest, Reaped, Steps};
use pillarbox_core::{Error, EventId, Failure, FailureKind, Result, Timestamp};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};
use uuid::Uuid;

use crate::claim::seqs_json;
use crate::error::classify;
use crate::lanes;
use crate::row::shown_route;
use crate::sql::{Statements, query};
use crate::store::SqliteStore;
use crate::writer::Step;

/// Rows, and sessions of lanes: whoever reads a route returns what the other kind of relay left.
pub(crate) async fn reap(store: &SqliteStore, request: ReapRequest) -> Result<Reaped> {
    let lanes = lanes::reap(store, &request).await?;
    let mut reaped = reap_rows(store, &request).await?;
    reaped.stale += lanes.stale;
    reaped.dead.extend(lanes.dead);
    reaped.lane_sessions = lanes.lane_sessions;
    Ok(reaped)
}

pub(crate) async fn reap_rows(store: &SqliteStore, request: &ReapRequest) -> Result<Reaped> {
    request.check()?;
    let step = Reap { statements: &store.statements, request };
    let mut reader = store.reader().await?;
    // Nearly always there is nothing to do; a look does not take the write lock.
    let found = step.find(&mut reader).await?;
    let suspects = step.suspects(&mut reader).await?;
    drop(reader);
    let stale = found.iter().filter(|stale| stale.leased).count();
    if found.is_empty() || request.effect == Effect::DryRun {
        return Ok(Reaped { stale: stale as u64, suspects, ..Reaped::default() });
    }
    let mut reaped = store.writer.durably(&step).await?;
    reaped.suspects = suspects || reaped.released > 0;
    Ok(reaped)
}

/// A row that a reap is about.
struct Stale {
    seq: i64,
    /// Whether it is in flight; if not, it is here because its attempts are spent.
    leased: bool,
    spent: bool,
    error: String,
    /// What would be told of its death.
    death: Death,
}

impl Stale {
    fn read(row: &SqliteRow) -> Result<Self> {
        let error: String = row.try_get_unchecked(7).map_err(classify)?;
        let id: &str = row.try_get_unchecked(1).map_err(classify)?;
        let route: &str = row.try_get_unchecked(2).map_err(classify)?;
        let attempts: i64 = row.try_get_unchecked(4).map_err(classify)?;
        Ok(Self {
            seq: row.try_get_unchecked(0).map_err(classify)?,
            leased: row.try_get_unchecked(5).map_err(classify)?,
            spent: row.try_get_unchecked(6).map_err(classify)?,
            death: Death {
                event_id: Uuid::try_parse(id).map_or(EventId(Uuid::nil()), EventId),
                route: shown_route(route)?,
                event_type: row.try_get_unchecked(3).map_err(classify)?,
                attempts: u32::try_from(attempts).unwrap_or(u32::MAX),
                failure: Failure::parse(&error),
            },
            error,
        })
    }
}

struct Reap<'a> {
    statements: &'a Statements,
    request: &'a ReapRequest,
}

impl Reap<'_> {
    fn now(&self) -> Option<i64> {
        self.request.now.map(Timestamp::as_micros)
    }

    /// Whether something that came back before waits to be taken.
    async fn suspects(&self, connection: &mut SqliteConnection) -> Result<bool> {
        let Some(route) = &self.request.route else { return Ok(false) };
        let rows = query(&self.statements.suspects)
            .bind(route.to_string())
            .bind(u32::MAX)
            .bind(1)
            .bind(self.request.steps == Steps::Take)
            .fetch_all(connection)
            .await
            .map_err(classify)?;
        Ok(!rows.is_empty())
    }

    async fn find(&self, connection: &mut SqliteConnection) -> Result<Vec<Stale>> {
        let routes = match &self.request.route {
            Some(route) => vec![route.as_str().to_owned()],
            None => {
                let rows =
                    query(&self.statements.routes).fetch_all(&mut *connection).await.map_err(classify)?;
                rows.iter().map(|row| row.try_get_unchecked(0).map_err(classify)).collect::<Result<_>>()?
            }
        };
        let failure = Failure::new(
            FailureKind::LeaseExpired,
            "lease_expired",
            "nobody settled it before its lease ended",
        );
        let mut found = Vec::new();
        for route in routes {
            let left =
                i64::from(self.request.limit).saturating_sub(i64::try_from(found.len()).unwrap_or(i64::MAX));
            if left <= 0 {
                break;
            }
            let rows = query(&self.statements.stale)
                .bind(self.now())
                .bind(route)
                .bind(left)
                .bind(self.request.max_attempts)
                .bind(failure.to_string())
                .bind(self.request.leases == Leases::Impossible)
                .bind(self.request.steps == Steps::Take)
                .fetch_all(&mut *connection)
                .await
                .map_err(classify)?;
            for row in &rows {
                found.push(Stale::read(row)?);
            }
        }
        Ok(found)
    }
}

#[async_trait]
impl Step for &Reap<'_> {
    type Outcome = Reaped;

    async fn run(self, tx: &mut SqliteConnection) -> Result<Reaped> {
        let found = self.find(&mut *tx).await?;
        let rows: Vec<_> = found.iter().map(|stale| (stale.seq, stale.spent, &stale.error)).collect();
        let json = serde_json::to_string(&rows)
            .map_err(|_| Error::invalid("an expired lease cannot be written as JSON"))?;
        // The audit row comes before the status that it explains.
        query(&self.statements.reap_audit)
            .bind(self.now())
            .bind(self.request.owner.clone())
            .bind(json.clone())
            .execute(&mut *tx)
            .await
            .map_err(classify)?;
        query(&self.statements.reap).bind(self.now()).bind(json).execute(&mut *tx).await.map_err(classify)?;
        // Should the route be read by lanes: these entries were not theirs until now.
        let seqs: Vec<i64> = found.iter().map(|stale| stale.seq).collect();
        query(&self.statements.lanes_revise).bind(seqs_json(&seqs)?).execute(tx).await.map_err(classify)?;
        let mut reaped = Reaped::default();
        for stale in found {
            reaped.stale += u64::from(stale.leased);
            if stale.spent {
                reaped.dead.push(stale.death);
            } else {
                reaped.released += 1;
            }
        }
        Ok(reaped)
    }
}
