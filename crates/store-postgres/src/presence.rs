//! Which relays are running, for people.

use async_trait::async_trait;
use pillarbox_core::limits::{LIST_MAX, RELAY_SWEPT_AFTER};
use pillarbox_core::port::{AnnounceRequest, Presence, RelaySeen, RunId};
use pillarbox_core::{Error, ErrorKind, Failure, OnDead, Result, RouteName, Timestamp};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::bind::Bind;
use crate::call::{Again, Line};
use crate::claim::micros;
use crate::row::At;
use crate::store::PostgresStore;

#[async_trait]
impl Presence for PostgresStore {
    async fn announce(&self, request: AnnounceRequest) -> Result<()> {
        request.check()?;
        let outage = request.outage.as_ref();
        let arguments = Bind::new()
            .number(request.run.0)
            .text(request.route.as_str())
            .text(&request.owner)
            .text(&request.mode)
            .text(&request.wake)
            .number(i64::try_from(request.in_flight).unwrap_or(i64::MAX))
            .text(request.circuit.as_str())
            .value(outage.map(|outage| micros(outage.lasted)))
            .number(outage.map_or(0, |outage| outage.found).into())
            .value(outage.map(|outage| outage.failure.to_string()))
            .at(request.now)
            .number(micros(RELAY_SWEPT_AFTER))
            .number(micros(request.lease))
            .value(request.on_dead.map(OnDead::as_str))
            .done()?;
        self.run(Line::Relay, Again::Always, &self.sql().announce, arguments).await.map(drop)
    }

    async fn withdraw(&self, run: RunId) -> Result<()> {
        let arguments = Bind::new().number(run.0).done()?;
        self.run(Line::Relay, Again::Always, &self.sql().withdraw, arguments).await.map(drop)
    }

    async fn relays(&self, now: Option<Timestamp>) -> Result<Vec<RelaySeen>> {
        let arguments =
            Bind::new().at(now).number(micros(RELAY_SWEPT_AFTER)).number(LIST_MAX.into()).done()?;
        let rows = self.run(Line::Operator, Again::Always, &self.sql().relays, arguments).await?;
        rows.iter().map(seen).collect()
    }
}

/// Reads the columns of `relays.sql`.
fn seen(row: &PgRow) -> Result<RelaySeen> {
    let unreadable = |_| Error::new(ErrorKind::Corrupt, "the announcement of a relay cannot be read");
    let time = |column: usize| {
        let at = row.try_get::<Option<At>, _>(column).map_err(unreadable)?;
        Ok::<_, Error>(at.and_then(At::timestamp))
    };
    let number = |column: usize| row.try_get::<i64, _>(column).map_err(unreadable);
    let text = |column: usize| row.try_get::<String, _>(column).map_err(unreadable);
    let reason: Option<&str> = row.try_get(9).map_err(unreadable)?;
    let seen_at = time(11)?.unwrap_or(Timestamp::MIN);
    Ok(RelaySeen {
        run: RunId(number(0)?),
        route: RouteName::new(text(1)?)?,
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
