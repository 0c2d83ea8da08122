//! Adaptive polling: eager while work flows, quiet when there is none.

use std::time::Duration;

/// How long to wait after empty claims. Doubles from the shortest to the longest wait, spread by up to a
/// quarter so that many relays do not ask in step.
#[derive(Debug)]
pub(crate) struct Poll {
    min: Duration,
    max: Duration,
    next: Duration,
}

impl Poll {
    pub(crate) fn new(min: Duration, max: Duration) -> Self {
        Self { min, max, next: min }
    }

    /// There was work: ask again at once, and eagerly after that.
    pub(crate) fn found(&mut self) {
        self.next = self.min;
    }

    /// There was none: how long to wait.
    pub(crate) fn empty(&mut self, random: u64) -> Duration {
        let wait = self.next;
        self.next = (self.next * 2).min(self.max);
        // Up to a quarter less, by the low bits of the random number.
        wait - wait / 4 * u32::from(u8::try_from(random & 0xff).unwrap_or(0)) / 255
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_when_idle_and_shrink_with_work() {
        let ms = Duration::from_millis;
        let mut poll = Poll::new(ms(5), ms(30));
        assert_eq!(
            [poll.empty(0), poll.empty(0), poll.empty(0), poll.empty(0)],
            [ms(5), ms(10), ms(20), ms(30)]
        );
        assert!(poll.empty(0xff) >= ms(22) && poll.empty(0xff) < ms(30), "spread by a quarter");
        poll.found();
        assert_eq!(poll.empty(0), ms(5));
    }
}
