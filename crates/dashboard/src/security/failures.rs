//! How often an address showed a wrong token lately.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pillarbox_core::Timestamp;

/// Wrong tokens of one address before it must wait.
const FAILURES_MAX: u32 = 10;
/// How long it must wait after the first of them.
pub(crate) const WINDOW: Duration = Duration::from_secs(60);
/// Addresses that are remembered.
const ADDRESSES_MAX: usize = 10_000;

/// Counts wrong tokens per address.
#[derive(Default)]
pub(crate) struct Failures(Mutex<HashMap<Option<IpAddr>, (Timestamp, u32)>>);

impl Failures {
    /// Whether this address must wait.
    pub(crate) fn is_blocked(&self, from: Option<IpAddr>, now: Timestamp) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .get(&counted_as(&known, from))
            .is_some_and(|(since, count)| now.since(*since) < WINDOW && *count >= FAILURES_MAX)
    }

    /// Counts a wrong token.
    pub(crate) fn add(&self, from: Option<IpAddr>, now: Timestamp) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= ADDRESSES_MAX {
            known.retain(|_, (since, _)| now.since(*since) < WINDOW);
        }
        let from = counted_as(&known, from);
        let count = known.entry(from).or_insert((now, 0));
        if now.since(count.0) >= WINDOW {
            *count = (now, 0);
        }
        count.1 = count.1.saturating_add(1);
    }
}

/// The address under which a failure is counted. All others share one count while too many addresses try at once.
fn counted_as<T>(known: &HashMap<Option<IpAddr>, T>, from: Option<IpAddr>) -> Option<IpAddr> {
    if known.len() >= ADDRESSES_MAX && !known.contains_key(&from) { None } else { from }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_many_wrong_tokens_waits_and_others_do_not() {
        let (failures, now) = (Failures::default(), Timestamp::MIN);
        let (bad, good) = (Some(IpAddr::from([10, 0, 0, 1])), Some(IpAddr::from([10, 0, 0, 2])));
        for _ in 0..FAILURES_MAX {
            assert!(!failures.is_blocked(bad, now));
            failures.add(bad, now);
        }
        assert!(failures.is_blocked(bad, now) && !failures.is_blocked(good, now));
        assert!(!failures.is_blocked(bad, now.saturating_add(WINDOW)));
    }

    #[test]
    fn addresses_beyond_those_that_are_remembered_wait_together() {
        let (failures, now) = (Failures::default(), Timestamp::MIN);
        let address = |n: u32| Some(IpAddr::from(n.to_be_bytes()));
        let many = u32::try_from(ADDRESSES_MAX).unwrap();
        (0..many).for_each(|n| failures.add(address(n), now));
        for n in 0..FAILURES_MAX {
            assert!(!failures.is_blocked(address(many + n), now));
            failures.add(address(many + n), now);
        }
        assert!(failures.is_blocked(address(many * 2), now) && !failures.is_blocked(address(1), now));
    }
}
