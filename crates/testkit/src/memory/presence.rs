//! Which relays are running, in memory.

use async_trait::async_trait;
use pillarbox_core::limits::RELAY_SWEPT_AFTER;
use pillarbox_core::port::{AnnounceRequest, Presence, RelaySeen, RunId};
use pillarbox_core::{Result, Timestamp};

use super::store::MemoryStore;

#[async_trait]
impl Presence for MemoryStore {
    async fn announce(&self, request: AnnounceRequest) -> Result<()> {
        request.check()?;
        let now = self.shared.now(request.now);
        let mut state = self.shared.lock();
        match request.on_dead {
            Some(on_dead) => state.on_dead.insert(request.route.clone(), on_dead),
            None => state.on_dead.remove(&request.route),
        };
        let relays = &mut state.relays;
        let outage = request.outage;
        let mut seen = RelaySeen::new(request.run, request.route, request.owner, now);
        (seen.mode, seen.wake) = (request.mode, request.wake);
        (seen.in_flight, seen.circuit) = (request.in_flight, request.circuit);
        seen.down_since = outage.as_ref().map(|outage| now.saturating_sub(outage.lasted));
        seen.outages = outage.as_ref().map_or(0, |outage| outage.found);
        seen.reason = outage.map(|outage| outage.failure);
        seen.started_at = relays.get(&request.run).map_or(now, |known| known.started_at);
        seen.lease_until = now.saturating_add(request.lease);
        relays.insert(request.run, seen);
        relays.retain(|_, seen| now.since(seen.seen_at) < RELAY_SWEPT_AFTER);
        Ok(())
    }

    async fn withdraw(&self, run: RunId) -> Result<()> {
        self.shared.lock().relays.remove(&run);
        Ok(())
    }

    async fn relays(&self, now: Option<Timestamp>) -> Result<Vec<RelaySeen>> {
        let now = self.shared.now(now);
        let mut relays: Vec<RelaySeen> = self.shared.lock().relays.values().cloned().collect();
        for seen in &mut relays {
            seen.unseen_for = now.since(seen.seen_at);
        }
        relays.retain(|seen| seen.unseen_for < RELAY_SWEPT_AFTER);
        let order = |seen: &RelaySeen| (seen.route.clone(), seen.owner.clone(), seen.started_at, seen.run);
        relays.sort_by_key(order);
        Ok(relays)
    }
}
