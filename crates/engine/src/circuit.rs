//! The circuit of a route: a destination that is down is left alone, but for one probe at a time.

use std::time::Duration;

use pillarbox_core::{Backoff, CircuitState, Failure};
use tokio::time::Instant;

/// The longest wait before a probe that a destination can ask for.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);
/// The largest probe of a destination that answers; the room for entries in flight may be less.
const PROBE_MAX: u32 = 1 << 16;

/// What may be claimed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allowance {
    /// As much as there is room for.
    Any,
    /// So many entries, as a probe.
    Probe(u32),
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
    /// How many entries the next probe takes.
    probe: u32,
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
        Self { backoff, outages: 0, retry_at: None, probe: 1, down: None }
    }

    /// A delivery found the destination down.
    pub(crate) fn down(&mut self, now: Instant, random: u64, failure: &Failure) {
        if self.is_new(now) {
            self.probe = 1;
            self.open(now, random, None, failure);
        }
    }

    /// A delivery found the destination there, and was refused. One message, or those for one queue of several, may
    /// be all that it refuses, and these are the oldest: the next probe goes beyond them.
    pub(crate) fn busy(
        &mut self,
        now: Instant,
        random: u64,
        failure: &Failure,
        retry_after: Option<Duration>,
    ) {
        if self.is_new(now) {
            self.probe = if self.outages == 0 { 1 } else { self.probe.saturating_mul(2).min(PROBE_MAX) };
            self.open(now, random, retry_after, failure);
        }
    }

    /// A batch reports one outage many times: only the first report of it moves the next probe.
    fn is_new(&self, now: Instant) -> bool {
        self.retry_at.is_none_or(|at| at <= now)
    }

    fn open(&mut self, now: Instant, random: u64, retry_after: Option<Duration>, failure: &Failure) {
        self.outages = self.outages.saturating_add(1);
        let wait = match retry_after {
            Some(wait) => wait.clamp(self.backoff.base(), RETRY_AFTER_MAX),
            None => self.backoff.delay(self.outages, random).unwrap_or(self.backoff.max()),
        };
        self.retry_at = Some(now + wait);
        let since = self.down.as_ref().map_or(now, |down| down.since);
        self.down = Some(Down { since, found: self.outages, failure: failure.clone() });
    }

    /// The probe found the destination up: it answered, whatever it said of that one entry.
    pub(crate) fn up(&mut self) {
        self.outages = 0;
        self.retry_at = None;
        self.probe = 1;
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
            Some(_) => Allowance::Probe(self.probe),
        }
    }

    pub(crate) fn state(&self, now: Instant) -> CircuitState {
        match self.allowance(now) {
            Allowance::Any => CircuitState::Closed,
            Allowance::Probe(_) => CircuitState::Probing,
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
        assert_eq!(circuit.allowance(start + seconds(1)), Allowance::Probe(1));
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

    #[test]
    fn a_destination_that_answers_is_probed_with_ever_more_until_it_is_gone() {
        let second = Duration::from_secs(1);
        let mut now = Instant::now();
        let mut circuit = Circuit::new(Backoff::new(second, second, Jitter::None).unwrap());
        let full = Failure::new(FailureKind::Down, "nack", "full");
        for probe in [1, 2, 4, 8] {
            circuit.busy(now, 0, &full, None);
            now += second;
            assert_eq!(circuit.allowance(now), Allowance::Probe(probe));
        }
        circuit.down(now, 0, &full);
        assert_eq!(circuit.allowance(now + second), Allowance::Probe(1));
        circuit.up();
        circuit.busy(now, 0, &full, None);
        assert_eq!(circuit.allowance(now + second), Allowance::Probe(1));
    }

    #[test]
    fn a_wait_that_the_destination_asks_for_is_kept_within_bounds() {
        let (second, start) = (Duration::from_secs(1), Instant::now());
        let full = Failure::new(FailureKind::Down, "http_429", "");
        for (asked, wait) in [
            (Duration::ZERO, second),
            (7 * second, 7 * second),
            (Duration::from_secs(86_400), RETRY_AFTER_MAX),
        ] {
            let mut circuit = Circuit::new(Backoff::new(second, 2 * second, Jitter::None).unwrap());
            circuit.busy(start, 0, &full, Some(asked));
            assert_eq!(circuit.allowance(start), Allowance::Wait(start + wait), "{asked:?}");
        }
    }
}
