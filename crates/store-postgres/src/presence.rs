//! Which relays are running, for people.

use async_trait::async_trait;
use pillarbox_core::limits::{LIST_MAX, RELAY_SWEPT_AFTER};
use pillarbox_core::port::shared::relay_seen;
use pillarbox_core::port::{AnnounceRequest, Presence, RelaySeen, RunId};
use pillarbox_core::{OnDead, Result, Timestamp};

use crate::bind::Bind;
use crate::call::{Again, Traffic};
use crate::claim::micros;
use crate::row::Cells;
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
        self.run(Traffic::Relay, Again::Always, &self.sql().announce, arguments).await.map(drop)
    }

    async fn withdraw(&self, run: RunId) -> Result<()> {
        let arguments = Bind::new().number(run.0).done()?;
        self.run(Traffic::Relay, Again::Always, &self.sql().withdraw, arguments).await.map(drop)
    }

    async fn relays(&self, now: Option<Timestamp>) -> Result<Vec<RelaySeen>> {
        let arguments =
            Bind::new().at(now).number(micros(RELAY_SWEPT_AFTER)).number(LIST_MAX.into()).done()?;
        let rows = self.run(Traffic::Operator, Again::Always, &self.sql().relays, arguments).await?;
        rows.iter().map(|row| relay_seen(&mut Cells::of(row))).collect()
    }
}
