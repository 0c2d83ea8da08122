//! Accepting a batch: which of its events are marked, and which are stale.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::EventId;
use crate::port::{AcceptBatch, Accepted, Origin};

/// How the events of a batch are to be accepted, decided from the newest owners that the inbox knows.
///
/// The decision is the one that [`accept`](crate::port::Inbox::accept) would take for each event in turn.
#[derive(Clone, Debug)]
pub struct AcceptPlan {
    /// The events in their order, and whether each is stale.
    events: Vec<(EventId, bool)>,
    newer: Vec<NewOwner>,
}

/// A lane owner that the inbox is to remember.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewOwner {
    /// The owner, with the position of the first event that it published.
    pub origin: Origin,
    /// Whether the inbox knows an earlier owner of the same lane.
    pub known: bool,
}

impl NewOwner {
    /// This owner, and whether the inbox knows an earlier one of its lane.
    #[must_use]
    pub fn new(origin: Origin, known: bool) -> Self {
        Self { origin, known }
    }
}

impl AcceptPlan {
    /// Decides by the newest owner that is known of each lane.
    #[must_use]
    pub fn new(batch: &AcceptBatch, known: impl IntoIterator<Item = Origin>) -> Self {
        let mut newest: BTreeMap<String, Origin> =
            known.into_iter().map(|origin| (origin.lane.clone(), origin)).collect();
        let before: BTreeSet<String> = newest.keys().cloned().collect();
        let mut raised: BTreeSet<String> = BTreeSet::new();
        let mut events = Vec::with_capacity(batch.events.len());
        for (event_id, origin) in &batch.events {
            let stale = origin.as_ref().is_some_and(|own| {
                let known = newest.get(&own.lane);
                if known.is_some_and(|known| own.is_stale(known)) {
                    return true;
                }
                if own.is_newer(known) {
                    newest.insert(own.lane.clone(), own.clone());
                    raised.insert(own.lane.clone());
                }
                false
            });
            events.push((*event_id, stale));
        }
        let newer = newest.into_values().filter(|origin| raised.contains(&origin.lane));
        let newer = newer.map(|origin| NewOwner { known: before.contains(&origin.lane), origin }).collect();
        Self { events, newer }
    }

    /// The lanes that the events of a batch come from, each once.
    #[must_use]
    pub fn lanes(batch: &AcceptBatch) -> Vec<&str> {
        let lanes = batch.events.iter().filter_map(|(_, origin)| Some(origin.as_ref()?.lane.as_str()));
        lanes.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The events to mark, each once. They are sorted, so that two transactions that mark the same events wait for
    /// each other and do not deadlock.
    #[must_use]
    pub fn to_mark(&self) -> BTreeSet<EventId> {
        self.events.iter().filter(|(_, stale)| !stale).map(|(id, _)| *id).collect()
    }

    /// The stale events, each once. One of them may have been marked before.
    #[must_use]
    pub fn stale(&self) -> BTreeSet<EventId> {
        self.events.iter().filter(|(_, stale)| *stale).map(|(id, _)| *id).collect()
    }

    /// All events, each once.
    #[must_use]
    pub fn all(&self) -> BTreeSet<EventId> {
        self.events.iter().map(|(id, _)| *id).collect()
    }

    /// The owners to remember, one a lane. Also if all events are duplicates: a new owner first publishes what the
    /// last one may have published already.
    #[must_use]
    pub fn newer(&self) -> &[NewOwner] {
        &self.newer
    }

    /// The outcome of each event, once it is known which of them had been marked before the batch.
    #[must_use]
    pub fn outcomes(&self, marked_before: &BTreeSet<EventId>) -> Vec<Accepted> {
        let mut own = BTreeSet::new();
        let outcome = |(id, stale): &(EventId, bool)| {
            if marked_before.contains(id) || own.contains(id) {
                Accepted::Duplicate
            } else if *stale {
                Accepted::Stale
            } else {
                own.insert(*id);
                Accepted::Fresh
            }
        };
        self.events.iter().map(outcome).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Fence;
    use crate::port::Position;

    fn id(n: u128) -> EventId {
        EventId(uuid::Uuid::from_u128(n))
    }

    fn origin(lane: &str, fence: i64, offset: i64) -> Option<Origin> {
        let position = Position { stream: "s".into(), offset };
        Some(Origin { lane: lane.into(), fence: Fence(fence), position })
    }

    fn check(
        known: Option<Origin>,
        events: &[(u128, Option<Origin>)],
        marked_before: &[u128],
        wanted: &[Accepted],
    ) -> AcceptPlan {
        let batch = events.iter().fold(AcceptBatch::new("c"), |batch, (n, o)| batch.event(id(*n), o.clone()));
        let plan = AcceptPlan::new(&batch, known);
        let before = marked_before.iter().map(|n| id(*n)).collect();
        assert_eq!(plan.outcomes(&before), wanted);
        plan
    }

    #[test]
    fn an_event_that_comes_twice_is_fresh_once() {
        let wanted = [Accepted::Fresh, Accepted::Duplicate, Accepted::Duplicate, Accepted::Fresh];
        let plan = check(None, &[(1, None), (1, None), (2, None), (3, None)], &[2], &wanted);
        assert_eq!(plan.to_mark(), [id(1), id(2), id(3)].into());
        assert!(plan.newer().is_empty() && plan.stale().is_empty());
    }

    #[test]
    fn a_new_owner_inside_the_batch_makes_a_later_event_of_the_old_one_stale() {
        let events = [(1, origin("l", 7, 10)), (2, origin("l", 6, 11)), (3, origin("l", 6, 9))];
        let plan = check(None, &events, &[], &[Accepted::Fresh, Accepted::Stale, Accepted::Fresh]);
        assert_eq!((plan.stale(), plan.all().len()), ([id(2)].into(), 3));
        assert_eq!(plan.newer(), [NewOwner { origin: origin("l", 7, 10).unwrap(), known: false }]);
    }

    #[test]
    fn a_stale_event_is_a_duplicate_only_if_it_was_marked_before_it() {
        let known = origin("l", 7, 1);
        let events = [(1, origin("l", 6, 5)), (1, origin("l", 7, 6)), (1, origin("l", 6, 7))];
        let plan =
            check(known.clone(), &events, &[], &[Accepted::Stale, Accepted::Fresh, Accepted::Duplicate]);
        assert!(plan.newer().is_empty(), "the owner is known");
        check(known, &events, &[1], &[Accepted::Duplicate; 3]);
    }

    #[test]
    fn a_duplicate_tells_of_a_new_owner_and_each_lane_has_its_own() {
        let events =
            [(1, origin("a", 8, 5)), (2, origin("b", 1, 6)), (3, origin("a", 9, 7)), (4, origin("a", 9, 8))];
        let known = origin("a", 7, 1);
        let plan = check(
            known,
            &events,
            &[1],
            &[Accepted::Duplicate, Accepted::Fresh, Accepted::Fresh, Accepted::Fresh],
        );
        let newest = [(origin("a", 9, 7), true), (origin("b", 1, 6), false)];
        let newest = newest.map(|(origin, known)| NewOwner { origin: origin.unwrap(), known });
        assert_eq!(plan.newer(), newest);
    }
}
