//! The circuit's eyes: what the outcomes of deliveries say of the destination.

use pillarbox_core::{CircuitState, Outcome};
use tokio::time::Instant;

use super::super::batch::BatchId;
use super::Pipeline;

/// The batch that a destination is probed with.
pub(super) struct Probe {
    batch: BatchId,
    /// Whether the destination took any of it, or had something to say of it.
    through: bool,
}

impl Pipeline<'_> {
    /// A batch is about to be delivered. While the circuit probes, no other one is under way.
    pub(super) fn note_probe(&mut self, batch: BatchId) {
        let probing = self.circuit.state(Instant::now()) == CircuitState::Probing;
        self.probe = probing.then_some(Probe { batch, through: false });
    }

    /// Opens or closes the circuit by what came of one entry of this batch.
    pub(super) fn heed(&mut self, batch: BatchId, outcome: &Outcome, random: u64) {
        let now = Instant::now();
        let state = self.circuit.state(now);
        let probe = self.probe.as_mut().filter(|probe| probe.batch == batch);
        match outcome {
            Outcome::Down(failure) => {
                if state == CircuitState::Closed {
                    tracing::warn!(
                        route = %self.relay.route, %failure,
                        "the destination is down, so the circuit is open: nothing is claimed until a probe \
                         gets through, and no attempt is spent"
                    );
                }
                self.circuit.down(now, random, failure);
            }
            // The others of a probe were refused, but not all of them: some messages get through.
            Outcome::Busy { .. } if probe.as_ref().is_some_and(|probe| probe.through) => {}
            Outcome::Busy { failure, retry_after } => {
                if state == CircuitState::Closed {
                    tracing::warn!(
                        route = %self.relay.route, %failure,
                        "the destination accepts no more messages for now, so the circuit is open: nothing \
                         is claimed until a probe gets through, and no attempt is spent"
                    );
                }
                self.circuit.busy(now, random, failure, *retry_after);
            }
            // A probe without an answer has shown nothing: the destination may swallow everything.
            Outcome::Unknown(failure) if state == CircuitState::Probing => {
                self.circuit.down(now, random, failure);
            }
            // What was not tried says nothing.
            Outcome::Unknown(_) | Outcome::Untried => {}
            // Only a probe closes the circuit: what was confirmed just before the outage says nothing.
            _ if state == CircuitState::Probing || probe.is_some() => {
                if let Some(probe) = probe {
                    probe.through = true;
                }
                if state != CircuitState::Closed {
                    tracing::info!(
                        route = %self.relay.route,
                        "the destination answers again, so the circuit is closed"
                    );
                    self.circuit.up();
                }
            }
            _ => {}
        }
    }
}
