//! Taking entries that came back from an expired lease: in small company, and in turn with all others.

use std::collections::BTreeSet;
use std::time::Duration;

use pillarbox_core::Held;
use pillarbox_core::port::{Claim, Company};
use tokio::time::Instant;

/// What one run knows of suspects.
///
/// **Invariant:** while one is in flight nothing else is claimed, so its company is never larger than the claim said.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    /// Some may be waiting.
    expected: bool,
    /// Others had their turn since the last ones: a pile of suspects does not starve fresh entries.
    others_next: bool,
    /// They are claimed when fewer than this many entries are in flight, and since when the relay waits for
    /// that.
    thinning: Option<(u32, Instant)>,
    /// Those in flight.
    held: BTreeSet<Held>,
}

impl Suspects {
    /// Some may have come back.
    pub(super) fn expect(&mut self) {
        self.expected = true;
    }

    /// Whether some may still have to be taken before a drain is over.
    pub(super) fn are_expected(&self) -> bool {
        self.expected || self.thinning.is_some()
    }

    /// What the next claim is for; `None`: no claim before something that is in flight has ended.
    pub(super) fn next(&self, in_flight: usize) -> Option<Company> {
        let beside = u32::try_from(in_flight).unwrap_or(u32::MAX);
        match self.thinning {
            _ if !self.held.is_empty() => None,
            Some((company, _)) if beside < company => Some(Company::Suspects { beside }),
            Some(_) => None,
            None if self.expected && !self.others_next => Some(Company::Suspects { beside }),
            None => Some(Company::Open),
        }
    }

    /// Others go on if what is in flight takes longer than that: the next reap asks again.
    pub(super) fn give_up_waiting(&mut self, now: Instant, patience: Duration) {
        if self.thinning.is_some_and(|(_, since)| now >= since + patience) {
            self.thinning = None;
        }
    }

    /// When to give up waiting.
    pub(super) fn waits_until(&self, patience: Duration) -> Option<Instant> {
        self.thinning.map(|(_, since)| since + patience)
    }

    /// What a claim brought.
    pub(super) fn claimed(&mut self, company: Company, claim: &Claim, now: Instant) {
        if company == Company::Open {
            self.others_next = false;
            self.expected |= claim.suspects.is_some();
            return;
        }
        self.held.extend(claim.entries.iter().map(pillarbox_core::Entry::held));
        self.held.extend(claim.undecodable.iter().map(|row| row.held));
        // Where some were taken there may be more.
        self.expected = !self.held.is_empty();
        self.others_next = self.expected;
        let since = self.thinning.map_or(now, |(_, since)| since);
        self.thinning = claim.suspects.map(|company| (company, since));
    }

    /// One is no longer in flight.
    pub(super) fn ended(&mut self, held: Held) {
        self.held.remove(&held);
    }
}

#[cfg(test)]
mod tests {
    use pillarbox_core::{Event, Fence, RouteName};
    use pillarbox_testkit::sample_entry;

    use super::*;

    fn claim_of(seqs: &[i64]) -> Claim {
        let entry = |seq: &i64| {
            let mut entry = sample_entry(RouteName::new("orders").unwrap(), Event::new("order.placed", "{}"));
            (entry.seq, entry.fence) = (*seq, Fence(1));
            entry
        };
        Claim { entries: seqs.iter().map(entry).collect(), ..Claim::default() }
    }

    #[test]
    fn suspects_and_others_take_turns() {
        let now = Instant::now();
        let mut suspects = Suspects::default();
        assert_eq!(suspects.next(3), Some(Company::Open));
        suspects.expect();
        let company = Company::Suspects { beside: 3 };
        assert_eq!(suspects.next(3), Some(company));
        suspects.claimed(company, &claim_of(&[1, 2]), now);
        assert_eq!(suspects.next(2), None, "nothing goes beside them");
        suspects.ended(Held { seq: 1, fence: Fence(1) });
        assert_eq!(suspects.next(1), None);
        suspects.ended(Held { seq: 2, fence: Fence(1) });
        assert_eq!(suspects.next(0), Some(Company::Open), "it is the turn of the others");
        suspects.claimed(Company::Open, &claim_of(&[3]), now);
        assert_eq!(suspects.next(1), Some(Company::Suspects { beside: 1 }));
        suspects.claimed(Company::Suspects { beside: 1 }, &claim_of(&[]), now);
        assert_eq!((suspects.next(1), suspects.are_expected()), (Some(Company::Open), false));
    }

    #[test]
    fn they_wait_for_a_small_company_but_not_for_ever() {
        let (now, patience) = (Instant::now(), Duration::from_secs(30));
        let mut suspects = Suspects::default();
        suspects.expect();
        let too_many = Claim { suspects: Some(1), ..Claim::default() };
        suspects.claimed(Company::Suspects { beside: 5 }, &too_many, now);
        assert_eq!(suspects.next(5), None);
        assert_eq!(suspects.next(0), Some(Company::Suspects { beside: 0 }));
        assert_eq!(suspects.waits_until(patience), Some(now + patience));
        suspects.give_up_waiting(now + patience, patience);
        assert_eq!(suspects.next(5), Some(Company::Open));
    }
}
