//! What a sink must keep that says that a failure stops the entries of its key behind it.

use pillarbox_core::{Entry, Event, EventId, Outcome, RouteName};
use pillarbox_testkit::sample_entry;

use super::{Refusal, SinkHarness, delivery, id, look, skip};

/// Entries of the key before the one that is refused, and behind it.
const AROUND: u64 = 50;

/// An entry of the one key, as a relay hands it over that keeps the order of keys.
fn hot(n: u64, event: &Event) -> Entry {
    let mut entry = sample_entry(RouteName::new("sample").unwrap(), event.clone().id(id(n)).key("hot"));
    (entry.seq, entry.lane) = (i64::try_from(n).unwrap(), Some(7));
    entry
}

async fn arrived(harness: &dyn SinkHarness) -> Vec<EventId> {
    harness.received().await.iter().map(|received| received.event_id).collect()
}

/// Where a key fails, what is before it is confirmed and there. What is behind it can be delivered in its order later.
pub async fn nothing_behind_a_refused_entry_of_its_key_is_confirmed_or_arrives(harness: &dyn SinkHarness) {
    look!(harness);
    if !harness.sink().capabilities().ordered_prefix {
        return skip("a failure does not stop the entries behind it");
    }
    let Some(Refusal { sink, taken, refused }) = harness.refusal().await else {
        return skip("the destination refuses nothing that the suite could hand over");
    };
    let middle = AROUND + 1;
    let of = |n: u64| hot(n, if n == middle { &refused } else { &taken });
    let batch: Vec<Entry> = (1..=middle + AROUND).map(of).collect();
    let outcomes = delivery::deliver(&*sink, &batch).await;
    let confirmed = outcomes.iter().take_while(|outcome| **outcome == Outcome::Confirmed).count();
    assert!(confirmed < usize::try_from(middle).unwrap(), "what is refused is confirmed");
    assert!(outcomes[confirmed].failure().is_some(), "no reason why the key stops: {outcomes:?}");
    for outcome in &outcomes[confirmed + 1..] {
        // Down: so is the whole destination. Nothing else may be said of an entry that nobody tried.
        assert!(matches!(outcome, Outcome::Untried | Outcome::Down(_)), "behind the failure: {outcome:?}");
    }
    let mut wanted = delivery::ids(&batch[..confirmed]);
    assert_eq!(arrived(harness).await, wanted, "what arrived is what was confirmed");
    let rest: Vec<Entry> =
        batch[confirmed..].iter().filter(|entry| entry.event_id != id(middle)).cloned().collect();
    delivery::confirm(&*harness.sink(), &rest).await;
    wanted.extend(delivery::ids(&rest));
    assert_eq!(arrived(harness).await, wanted);
}
