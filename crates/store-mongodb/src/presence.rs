//! Which relays are running, for people.

use async_trait::async_trait;
use mongodb::bson::{Bson, Document, doc};
use pillarbox_core::limits::{LIST_MAX, RELAY_SWEPT_AFTER};
use pillarbox_core::port::shared::relay_seen;
use pillarbox_core::port::{AnnounceRequest, Presence, RelaySeen, RunId};
use pillarbox_core::{OnDead, Result, Timestamp};

use crate::call::Traffic;
use crate::claim::micros;
use crate::command::{Change, Find, delete, update};
use crate::row::Cells;
use crate::store::MongoStore;

/// The fields in the order in which they are read; the time of the reader comes before the last.
const FIELDS: [&str; 12] = [
    "_id",
    "route",
    "owner",
    "mode",
    "wake",
    "in_flight",
    "circuit",
    "down_since",
    "outages",
    "reason",
    "started_at",
    "seen_at",
];

#[async_trait]
impl Presence for MongoStore {
    async fn announce(&self, request: AnnounceRequest) -> Result<()> {
        request.check()?;
        let (outage, route) = (request.outage.as_ref(), request.route.as_str());
        let at = self.link(Traffic::Relay).now_or(request.now).await?.as_micros();
        let down = outage.map(|outage| at.saturating_sub(micros(outage.lasted)));
        let relay = doc! {
            "route": route,
            "owner": &request.owner,
            "mode": &request.mode,
            "wake": &request.wake,
            "in_flight": i64::try_from(request.in_flight).unwrap_or(i64::MAX),
            "circuit": request.circuit.as_str(),
            "down_since": down,
            "outages": i64::from(outage.map_or(0, |outage| outage.found)),
            "reason": outage.map(|outage| outage.failure.to_string()),
            "seen_at": at,
            "lease_until": at.saturating_add(micros(request.lease)),
        };
        // When it started is kept.
        let relay = doc! { "$set": relay, "$setOnInsert": { "started_at": at } };
        let announce = Change::upsert(doc! { "_id": request.run.0 }, relay);
        self.execute(update(&self.tables.relay, [announce])).await?;
        let on_dead = request.on_dead.map_or(Bson::Null, |on_dead: OnDead| on_dead.as_str().into());
        let said = Change::upsert(doc! { "_id": route }, doc! { "$set": { "on_dead": on_dead } });
        self.execute(update(&self.tables.route_state, [said])).await?;
        let old = doc! { "seen_at": { "$lte": at.saturating_sub(micros(RELAY_SWEPT_AFTER)) } };
        self.execute(delete(&self.tables.relay, old)).await.map(drop)
    }

    async fn withdraw(&self, run: RunId) -> Result<()> {
        self.execute(delete(&self.tables.relay, doc! { "_id": run.0 })).await.map(drop)
    }

    async fn relays(&self, now: Option<Timestamp>) -> Result<Vec<RelaySeen>> {
        let at = self.link(Traffic::Operator).now_or(now).await?.as_micros();
        let lately = doc! { "seen_at": { "$gt": at.saturating_sub(micros(RELAY_SWEPT_AFTER)) } };
        let find = Find::new(&self.tables.relay, lately)
            .sort(doc! { "route": 1, "owner": 1, "started_at": 1, "_id": 1 })
            .limit(LIST_MAX.into());
        let read = |document: &Document| {
            let value = |name: &str| document.get(name).cloned().unwrap_or(Bson::Null);
            let mut values: Vec<Bson> = FIELDS.iter().map(|name| value(name)).collect();
            values.extend([at.into(), value("lease_until")]);
            relay_seen(&mut Cells::values(values))
        };
        self.find(Traffic::Operator, find).await?.iter().map(read).collect()
    }
}
