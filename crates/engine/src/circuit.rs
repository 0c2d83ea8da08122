//! The circuit of a route: a destination that is down is left alone, but for one probe at a time.

use pillarbox_core::Backoff;
use tokio::time::Instant;

/// Whether a route's destination is taken to be up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CircuitState {
    /// The destination answers.
    #[default]
    Closed,
    /// The destination is down; nothing is claimed.
    Open,
    /// One entry is tried, to see whether the destination is back.
    Probing,
}

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
}

impl Circuit {
    pub(crate) fn new(backoff: Backoff) -> Self {
        Self { backoff, outages: 0, retry_at: None }
    }

    /// A delivery found the destination down.
    pub(crate) fn down(&mut self, now: Instant, random: u64) {
        // A batch reports one outage many times: only the first report of it moves the next probe.
        if self.retry_at.is_some_and(|at| at > now) {
            return;
        }
        self.outages = self.outages.saturating_add(1);
        let wait = self.backoff.delay(self.outages, random).unwrap_or(self.backoff.max());
        self.retry_at = Some(now + wait);
    }

    /// The probe found the destination up: it answered, whatever it said of that one entry.
    pub(crate) fn up(&mut self) {
        self.outages = 0;
        self.retry_at = None;
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

    use pillarbox_core::Jitter;

    use super::*;

    #[test]
    fn an_outage_waits_probes_once_and_waits_longer() {
        let seconds = Duration::from_secs;
        let start = Instant::now();
        let mut circuit = Circuit::new(Backoff::new(seconds(1), seconds(3), Jitter::None).unwrap());
        assert_eq!(circuit.allowance(start), Allowance::Any);
        for _ in 0..500 {
            circuit.down(start, 0);
        }
        assert_eq!(circuit.allowance(start), Allowance::Wait(start + seconds(1)), "one outage, not 500");
        assert_eq!(circuit.state(start), CircuitState::Open);
        assert_eq!(circuit.allowance(start + seconds(1)), Allowance::One);
        circuit.down(start + seconds(1), 0);
        assert_eq!(circuit.allowance(start + seconds(1)), Allowance::Wait(start + seconds(3)));
        circuit.down(start + seconds(3), 0);
        assert_eq!(
            circuit.allowance(start + seconds(3)),
            Allowance::Wait(start + seconds(6)),
            "at most the maximum"
        );
        circuit.up();
        assert_eq!(circuit.state(start), CircuitState::Closed);
    }
}
