//! When the destination of a route was down, as far as this process has seen it.

use std::collections::VecDeque;

use pillarbox_core::Timestamp;
use pillarbox_core::port::RelaySeen;

/// How many outages of a route are remembered, the newest ones.
const OUTAGES_MAX: usize = 10;

/// A time in which at least one relay took the destination to be down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outage {
    pub(crate) from: Timestamp,
    /// `None`: it is not over.
    pub(crate) until: Option<Timestamp>,
    /// What the destination last answered, or that it did not.
    pub(crate) reason: Option<String>,
}

/// The last outages of a route's destination.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outages(VecDeque<Outage>);

impl Outages {
    /// Adds a look at the relays of the route.
    pub(crate) fn add<'a>(&mut self, now: Timestamp, relays: impl Iterator<Item = &'a RelaySeen>) {
        // A relay that is gone cannot say that its destination is back.
        let down = relays.filter(|relay| !relay.is_gone());
        let down = down.filter_map(|relay| Some((relay.down_since?, relay))).min_by_key(|(since, _)| *since);
        let open = self.0.back_mut().filter(|outage| outage.until.is_none());
        match (down, open) {
            (Some((_, relay)), Some(open)) => open.reason = reason(relay).or(open.reason.take()),
            (Some((from, relay)), None) => {
                self.0.push_back(Outage { from, until: None, reason: reason(relay) });
                if self.0.len() > OUTAGES_MAX {
                    self.0.pop_front();
                }
            }
            (None, Some(open)) => open.until = Some(now.max(open.from)),
            (None, None) => {}
        }
    }

    /// The newest first.
    pub(crate) fn newest(&self) -> impl Iterator<Item = &Outage> {
        self.0.iter().rev()
    }
}

fn reason(relay: &RelaySeen) -> Option<String> {
    relay.reason.as_ref().map(ToString::to_string)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pillarbox_core::port::RunId;
    use pillarbox_core::{Failure, FailureKind, RouteName};

    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::MIN.saturating_add(Duration::from_secs(seconds))
    }

    fn relay(down_since: Option<u64>, why: &str) -> RelaySeen {
        let mut relay = RelaySeen::new(RunId(1), RouteName::shown("mail"), "web-17", at(0));
        relay.down_since = down_since.map(at);
        relay.reason = down_since.map(|_| Failure::new(FailureKind::Down, "refused", why));
        relay.lease_until = at(10_000);
        relay
    }

    #[test]
    fn an_outage_begins_with_the_first_relay_and_ends_with_the_last() {
        let mut outages = Outages::default();
        outages.add(at(10), [relay(None, "")].iter());
        assert_eq!(outages.newest().count(), 0);
        outages.add(at(12), [relay(None, ""), relay(Some(11), "first")].iter());
        outages.add(at(20), [relay(Some(15), "later"), relay(Some(11), "second")].iter());
        outages.add(at(30), [relay(Some(15), "later"), relay(None, "")].iter());
        assert_eq!(outages.newest().next().unwrap().until, None);
        outages.add(at(40), [relay(None, "")].iter());
        let seen: Vec<_> = outages.newest().collect();
        assert_eq!((seen.len(), seen[0].from, seen[0].until), (1, at(11), Some(at(40))));
        assert!(seen[0].reason.as_ref().is_some_and(|why| why.contains("later")), "{seen:?}");
    }

    #[test]
    fn only_the_newest_are_remembered() {
        let mut outages = Outages::default();
        for n in 0..30 {
            outages.add(at(10 * n), [relay(Some(10 * n), "down")].iter());
            outages.add(at(10 * n + 5), [relay(None, "")].iter());
        }
        let seen: Vec<_> = outages.newest().collect();
        assert_eq!((seen.len(), seen[0].from), (OUTAGES_MAX, at(290)));
    }
}
