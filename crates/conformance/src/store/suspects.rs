//! Suspects: a crash accuses, it does not convict. What comes back from an expired lease goes in ever smaller company.

use pillarbox_core::port::{Admin, ClaimRequest, Company, Leases, ReapRequest, Verdict};
use pillarbox_core::{CRASHES_IN_COMPANY, Entry, Status, Timestamp, company};

use super::steps::*;
use crate::StoreHarness;

/// Claims entries and lets their leases expire, so often that each of them is a suspect of that degree.
async fn accuse<H: StoreHarness>(
    harness: &H,
    numbers: std::ops::RangeInclusive<u64>,
    crashes: u32,
) -> Timestamp {
    assert_eq!(stage(harness, numbers.clone().map(event).collect()).await.len(), numbers.clone().count());
    let mut now = soon(harness).await;
    let mut held: Vec<Entry> = claim(harness, 1_000, now).await;
    assert_eq!(held.len(), numbers.clone().count(), "only what is to be accused may be claimable");
    for crash in 1..=crashes {
        now = now.saturating_add(LEASE);
        assert_eq!(reap(harness, reap_request(now)).await.released, held.len() as u64);
        if crash < crashes {
            held.clear();
            while held.len() < numbers.clone().count() {
                held.extend(claim_suspects(harness, 0, now).await.entries);
            }
        }
    }
    now
}

/// Of the first degree a hundred at once, of the second ten, of the third and all above one.
pub async fn suspects_come_back_in_ever_smaller_company<H: StoreHarness>(harness: &H) {
    let mut first = 1;
    for crashes in 1..=CRASHES_IN_COMPANY + 1 {
        let most = u64::from(company(crashes));
        let now = accuse(harness, first..=first + most, crashes).await;
        let claimed = claim_suspects(harness, 0, now).await;
        assert_eq!(claimed.entries.len() as u64, most, "after {crashes} crashes");
        assert!(claimed.entries.iter().all(|entry| entry.crashes == crashes));
        let beside = u32::try_from(claimed.entries.len()).unwrap();
        let more = claim_suspects(harness, beside, now).await;
        assert!(more.entries.is_empty());
        assert_eq!(more.suspects, Some(company(crashes)), "the last one waits for a smaller company");
        let settlements = claimed.entries.iter().map(|entry| (entry.held(), Verdict::Delivered)).collect();
        assert!(settle_all(harness, settlements, now).await.fenced.is_empty());
        let last = claim_suspects(harness, 0, now).await.entries;
        assert_eq!(last.len(), 1);
        settle(harness, &last[0], Verdict::Delivered, now).await;
        first += most + 1;
    }
    let none = claim_suspects(harness, 0, soon(harness).await.saturating_add(HOUR)).await;
    assert_eq!((none.entries.len(), none.suspects), (0, None));
}

/// Room is what the others leave.
pub async fn a_claim_of_suspects_counts_what_is_in_flight_beside_them<H: StoreHarness>(harness: &H) {
    let now = accuse(harness, 1..=12, 2).await;
    for (beside, taken) in [(10, 0), (8, 2), (0, 10)] {
        assert_eq!(claim_suspects(harness, beside, now).await.entries.len(), taken, "beside {beside}");
    }
}

/// Entries with fewer crashes are delivered before the entry with the most crashes is tried again.
pub async fn the_least_accused_suspects_go_first<H: StoreHarness>(harness: &H) {
    accuse(harness, 1..=2, 3).await;
    let now = accuse(harness, 3..=5, 1).await;
    assert_eq!(ids(&claim_suspects(harness, 0, now).await.entries), ids_of([3, 4, 5]));
    assert_eq!(ids(&claim_suspects(harness, 0, now).await.entries), ids_of([1]));
}

/// A claim for all others does not see them.
pub async fn suspects_are_not_claimed_with_the_others<H: StoreHarness>(harness: &H) {
    let now = accuse(harness, 1..=3, 1).await;
    assert_eq!(stage(harness, vec![event(4)]).await.len(), 1);
    let now = now.max(soon(harness).await);
    assert_eq!(ids(&claim(harness, 10, now).await), ids_of([4]));
    assert_eq!(claim(harness, 10, now).await, []);
}

/// However few attempts are allowed: only a crash that an entry had alone is its own.
pub async fn a_crash_in_company_is_not_held_against_an_entry<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![event(1).max_attempts(1), event(2).max_attempts(1)]).await.len(), 2);
    let mut now = soon(harness).await;
    assert_eq!(claim(harness, 10, now).await.len(), 2);
    for crash in 1..=CRASHES_IN_COMPANY {
        now = now.saturating_add(LEASE);
        let reaped = reap(harness, reap_request(now)).await;
        assert_eq!((reaped.released > 0, reaped.dead.len()), (true, 0), "crash {crash}");
        let accused = claim_suspects(harness, 0, now).await.entries;
        assert!(accused.iter().any(|entry| entry.event_id == id(1)), "{accused:?}");
        for entry in accused.iter().filter(|entry| entry.event_id == id(2)) {
            // The other one does no harm.
            settle(harness, entry, Verdict::Delivered, now).await;
        }
    }
    now = now.saturating_add(LEASE);
    let reaped = reap(harness, reap_request(now)).await;
    assert_eq!(reaped.dead.iter().map(|death| death.event_id).collect::<Vec<_>>(), [id(1)]);
    assert_eq!(entry(harness, 2).await.status, Status::Delivered);
}

/// An entry that got an answer did not kill its relay.
pub async fn an_answer_ends_the_suspicion<H: StoreHarness>(harness: &H) {
    let now = accuse(harness, 1..=1, 2).await;
    let suspect = claim_suspects(harness, 0, now).await.entries.remove(0);
    settle(harness, &suspect, retry(SECOND), now).await;
    let later = now.saturating_add(SECOND);
    assert_eq!(claim_suspects(harness, 0, later).await.entries, []);
    let next = claim_one(harness, later).await;
    assert_eq!((next.attempts, next.crashes), (4, 2));
    settle(harness, &next, dead(), later).await;
    assert_eq!(harness.store().requeue(select_ids([1])).await.unwrap().changed, 1);
    assert_eq!(claim_one(harness, later).await.crashes, 0, "a requeue begins anew");
}

/// What was given back unharmed was not tried: it stays what it was.
pub async fn a_released_suspect_stays_one<H: StoreHarness>(harness: &H) {
    let now = accuse(harness, 1..=1, 1).await;
    let suspect = claim_suspects(harness, 0, now).await.entries.remove(0);
    settle(harness, &suspect, release(), now).await;
    assert_eq!(claim(harness, 10, now).await, []);
    let again = claim_suspects(harness, 0, now).await.entries.remove(0);
    assert_eq!((again.attempts, again.crashes), (2, 1));
}

/// After the database's clock was set back, a dead worker's lease would last as long as the step. It begins later than it
/// is long, so it is over.
pub async fn a_lease_that_begins_later_than_it_is_long_is_over<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(2)).await.len(), 2);
    let now = soon(harness).await;
    let ahead = now.saturating_add(HOUR);
    assert_eq!(claim(harness, 1, ahead).await.len(), 1);
    assert_eq!(claim(harness, 1, now).await.len(), 1);
    let impossible = |now| ReapRequest { leases: Leases::Impossible, ..reap_request(now) };
    let just_possible = ahead.saturating_sub(LEASE);
    assert_eq!(reap(harness, ReapRequest { route: None, ..reap_request(now) }).await.stale, 0);
    assert_eq!(reap(harness, impossible(now)).await.released, 1);
    assert_eq!(entry(harness, 1).await.status, Status::Retrying);
    assert_eq!(entry(harness, 2).await.status, Status::InFlight, "that one may still be at it");
    let company = Company::Suspects { beside: 0 };
    let again = claim_as(harness, ClaimRequest { company, ..claim_request(1, ahead) }).await;
    assert_eq!(ids(&again), ids_of([1]));
    // A small step back of the clock takes nothing from the owner.
    assert_eq!(
        reap(harness, impossible(just_possible)).await.released,
        1,
        "the lease of the other one has ended"
    );
    assert_eq!(entry(harness, 1).await.status, Status::InFlight);
}
