//! Which relays are running, for people.

use async_trait::async_trait;
use pillarbox_core::limits::{LIST_MAX, RELAY_SWEPT_AFTER};
use pillarbox_core::port::{AnnounceRequest, Presence, RelaySeen, RunId};
use pillarbox_core::{Failure, OnDead, Result, Timestamp};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use crate::claim::micros;
use crate::error::classify;
use crate::row::shown_route;
use crate::sql::query;
use crate::store::SqliteStore;

#[async_trait]
impl Presence for SqliteStore {
    async fn announce(&self, request: AnnounceRequest) -> Result<()> {
        request.check()?;
        let now = request.now.map(Timestamp::as_micros);
        let outage = request.outage.as_ref();
        // What is only for people does not wait for the disk.
        let announce = query(&self.statements.announce)
            .bind(request.run.0)
            .bind(request.route.to_string())
            .bind(request.owner)
            .bind(request.mode)
            .bind(request.wake)
            .bind(i64::try_from(request.in_flight).unwrap_or(i64::MAX))
            .bind(request.circuit.as_str())
            .bind(outage.map(|outage| micros(outage.lasted)))
            .bind(outage.map_or(0, |outage| outage.found))
            .bind(outage.map(|outage| outage.failure.to_string()))
            .bind(now)
            .bind(micros(request.lease));
        self.writer.execute(announce).await?;
        let on_dead = request.on_dead.map(OnDead::as_str);
        let known = query(&self.statements.announce_route).bind(request.route.to_string()).bind(on_dead);
        self.writer.execute(known).await?;
        let sweep = query(&self.statements.sweep).bind(now).bind(micros(RELAY_SWEPT_AFTER));
        self.writer.execute(sweep).await.map(|_| ())
    }

    async fn withdraw(&self, run: RunId) -> Result<()> {
        self.writer.execute(query(&self.statements.withdraw).bind(run.0)).await.map(|_| ())
    }

    async fn relays(&self, now: Option<Timestamp>) -> Result<Vec<RelaySeen>> {
        let rows = query(&self.statements.relays)
            .bind(now.map(Timestamp::as_micros))
            .bind(micros(RELAY_SWEPT_AFTER))
            .bind(LIST_MAX)
            .fetch_all(self.pool())
            .await
            .map_err(classify)?;
        rows.iter().map(seen).collect()
    }
}

/// Reads the columns of `relays.sql`.
fn seen(row: &SqliteRow) -> Result<RelaySeen> {
    let time = |column: usize| {
        let at: Option<i64> = row.try_get_unchecked(column).map_err(classify)?;
        Ok::<_, pillarbox_core::Error>(at.and_then(Timestamp::from_micros))
    };
    let number = |column: usize| row.try_get_unchecked::<i64, _>(column).map_err(classify);
    let text = |column: usize| row.try_get_unchecked::<String, _>(column).map_err(classify);
    let reason: Option<&str> = row.try_get_unchecked(9).map_err(classify)?;
    let seen_at = time(11)?.unwrap_or(Timestamp::MIN);
    Ok(RelaySeen {
        run: RunId(number(0)?),
        route: shown_route(&text(1)?)?,
        owner: text(2)?,
        mode: text(3)?,
        wake: text(4)?,
        in_flight: u64::try_from(number(5)?).unwrap_or(0),
        circuit: text(6)?.parse()?,
        down_since: time(7)?,
        outages: u32::try_from(number(8)?).unwrap_or(0),
        reason: reason.map(Failure::parse),
        started_at: time(10)?.unwrap_or(Timestamp::MIN),
        seen_at,
        unseen_for: time(12)?.unwrap_or(Timestamp::MIN).since(seen_at),
        lease_until: time(13)?.unwrap_or(Timestamp::MIN),
    })
}
