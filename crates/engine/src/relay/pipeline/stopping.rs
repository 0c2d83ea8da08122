//! Stopping: no new claims, a grace for what is under way, and the rest given back unharmed.

use tokio::time::Instant;

use super::Pipeline;

impl Pipeline<'_> {
    /// The shutdown was asked for.
    pub(super) fn stop(&mut self) {
        tracing::info!(route = %self.relay.route, in_flight = self.flight.places.len(), "stopping");
        self.grace_end = Some(Instant::now() + self.relay.options.grace);
        self.claims.enough = true;
    }

    /// Past the grace, deliveries are dropped and their entries released without spending the attempt.
    pub(super) fn end_grace(&mut self, now: Instant) {
        if self.grace_end.is_none_or(|end| now < end) {
            return;
        }
        for batch in self.flight.batches.values_mut() {
            if let Some(delivering) = &batch.delivering {
                batch.release_rest = true;
                delivering.abort();
            }
        }
    }
}
