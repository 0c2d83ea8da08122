//! The circuit of a route: a destination that is down is left alone, but for one probe at a time.

use pillarbox_core::{Backoff, CircuitState, Failure};
use tokio::time::Instant;

/// What may be claimed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allowance {
    /// As much as there is room for.
    Any,
    /// One entry, as a probe.
    One,
    /// Nothing before this time.
    Wait(Instant),
}

/// The circuit as a machine: what is reported goes in, what may be claimed comes out.
#[derive(Debug)]
pub(crate) struct Circuit {
    backoff: Backoff,
    /// Outages in a row, each seen by a probe or by the delivery that opened the circuit.
    outages: u32,
    retry_at: Option<Instant>,
    down: Option<Down>,
}

/// A destination that is down, as the relay that found it so knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Down {
    pub(crate) since: Instant,
    /// How often in a row it was found down.
    pub(crate) found: u32,
    pub(crate) failure: Failure,
}

impl Circuit {
    pub(crate) fn new(backoff: Backoff) -> Self {
        Self { backoff, outages: 0, retry_at: None, down: None }
    }

    /// A delivery found the destination down.
    pub(crate) fn down(&mut self, now: Instant, random: u64, failure: &Failure) {
        // A batch reports one outage many times: only the first report of it moves the next probe.
        if self.retry_at.is_some_and(|at| at > now) {
            return;
        }
        self.outages = self.outages.saturating_add(1);
        let wait = self.backoff.delay(self.outages, random).unwrap_or(self.backoff.max());
        self.retry_at = Some(now + wait);
        let since = self.down.as_ref().map_or(now, |down| down.since);
        self.down = Some(Down { since, found: self.outages, failure: failure.clone() });
    }

    /// The probe found the destination up: it answered, whatever it said of that one entry.
    pub(crate) fn up(&mut self) {
        self.outages = 0;
        self.retry_at = None;
        self.down = None;
    }

    /// What is known of the outage while the circuit is not closed.
    pub(crate) fn outage(&self) -> Option<&Down> {
        self.down.as_ref()
    }

    pub(crate) fn allowance(&self, now: Instant) -> Allowance {
        match self.retry_at {
            None => Allowance::Any,
            Some(at) if at > now => Allowance::Wait(at),
            Some(_) => Allowance::One,
        }
    }

    pub(crate) fn state(&self, now: Instant) -> CircuitState {
        match self.allowance(now) {
            Allowance::Any => CircuitState::Closed,
            Allowance::One => CircuitState::Probing,
            Allowance::Wait(_) => CircuitState::Open,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pillarbox_core::{FailureKind, Jitter};

    use super::*;

    #[test]
    fn an_outage_waits_probes_once_and_waits_longer() {
        let seconds = Duration::from_secs;
        let start = Instant::now();
        let mut circuit = Circuit::new(Backoff::new(seconds(1), seconds(3), Jitter::None).unwrap());
        let failure = Failure::new(FailureKind::Down, "unreachable", "nobody listens");
        assert_eq!(circuit.allowance(start), Allowance::Any);
        assert_eq!(circuit.outage(), None);
        for _ in 0..500 {
            circuit.down(start, 0, &failure);
        }
        assert_eq!(circuit.allowance(start), Allowance::Wait(start + seconds(1)), "one outage, not 500");
        assert_eq!(circuit.state(start), CircuitState::Open);
        assert_eq!(circuit.allowance(start + seconds(1)), Allowance::One);
        circuit.down(start + seconds(1), 0, &failure);
        assert_eq!(circuit.allowance(start + seconds(1)), Allowance::Wait(start + seconds(3)));
        circuit.down(start + seconds(3), 0, &failure);
        assert_eq!(
            circuit.allowance(start + seconds(3)),
            Allowance::Wait(start + seconds(6)),
            "at most the maximum"
        );
        assert_eq!(circuit.outage(), Some(&Down { since: start, found: 3, failure }));
        circuit.up();
        assert_eq!(circuit.outage(), None);
        assert_eq!(circuit.state(start), CircuitState::Closed);
    }
}
