//! Which relays are running, for people.

use async_trait::async_trait;
use pillarbox_core::limits::{LIST_MAX, RELAY_SWEPT_AFTER};
use pillarbox_core::port::shared::relay_seen;
use pillarbox_core::port::{AnnounceRequest, Presence, RelaySeen, RunId};
use pillarbox_core::{OnDead, Result, Timestamp};

use crate::bind::Bind;
use crate::call::Traffic;
use crate::claim::micros;
use crate::row::Cells;
use crate::store::MySqlStore;

#[async_trait]
impl Presence for MySqlStore {
    async fn announce(&self, request: AnnounceRequest) -> Result<()> {
        request.check()?;
        let (outage, route) = (request.outage.as_ref(), request.route.as_str());
        let relay = Bind::new()
            .number(request.run.0)
            .bytes(route)
            .text(&request.owner)
            .text(&request.mode)
            .text(&request.wake)
            .number(i64::try_from(request.in_flight).unwrap_or(i64::MAX))
            .text(request.circuit.as_str())
            .optional_number(outage.map(|outage| micros(outage.lasted)))
            .number(outage.map_or(0, |outage| outage.found).into())
            .optional_text(outage.map(|outage| outage.failure.to_string()))
            .at(request.now)
            .number(micros(request.lease));
        let route = Bind::new().bytes(route).optional_text(request.on_dead.map(OnDead::as_str));
        let old = Bind::new().at(request.now).number(micros(RELAY_SWEPT_AFTER));
        self.execute(&self.statements.announce.with(relay)?).await?;
        self.execute(&self.statements.announce_route.with(route)?).await?;
        self.execute(&self.statements.sweep.with(old)?).await.map(drop)
    }

    async fn withdraw(&self, run: RunId) -> Result<()> {
        self.execute(&self.statements.withdraw.with(Bind::new().number(run.0))?).await.map(drop)
    }

    async fn relays(&self, now: Option<Timestamp>) -> Result<Vec<RelaySeen>> {
        let bind = Bind::new().at(now).number(micros(RELAY_SWEPT_AFTER)).number(LIST_MAX.into());
        let rows = self.rows(Traffic::Operator, &self.statements.relays.with(bind)?).await?;
        rows.iter().map(|row| relay_seen(&mut Cells::of(row))).collect()
    }
}
