//! Changes that operators make by hand: which entries are selected, and which of them allow the change.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use uuid::Uuid;

use crate::audit::AuditKind;
use crate::error::Result;
use crate::event::EventId;
use crate::lane::{NO_LANE, lane_of};
use crate::limits::LIST_MAX;
use crate::name::RouteName;
use crate::port::{Changed, Filter, Selection, SelectionRequest, Skip, Skipped};
use crate::saga::SagaId;
use crate::standing::Standing;
use crate::status::{Action, Status};
use crate::time::Timestamp;

/// A change that an operator makes to entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Tries dead entries again.
    Requeue,
    /// Gives up dead entries for good.
    Discard,
    /// Makes waiting entries due at once.
    Hasten,
    /// Gives up waiting entries.
    Cancel,
}

impl Verb {
    /// The action in the table of transitions.
    #[must_use]
    pub const fn action(self) -> Action {
        match self {
            Self::Requeue => Action::Requeue,
            Self::Discard => Action::Discard,
            Self::Hasten => Action::Hasten,
            Self::Cancel => Action::Cancel,
        }
    }

    /// The kind of the audit record.
    #[must_use]
    pub const fn audited_as(self) -> AuditKind {
        match self {
            Self::Requeue => AuditKind::Requeued,
            Self::Discard => AuditKind::Discarded,
            Self::Hasten => AuditKind::Hastened,
            Self::Cancel => AuditKind::Cancelled,
        }
    }

    /// The stored statuses that allow the change.
    pub fn takes(self) -> impl Iterator<Item = Status> {
        Status::ALL.into_iter().filter(move |status| status.after(self.action()).is_some())
    }

    /// Why this entry does not allow the change. `None`: it does.
    #[must_use]
    pub fn refusal(self, entry: &Candidate) -> Option<Skip> {
        if entry.status.after(self.action()).is_none() {
            return Some(Skip::Standing(entry.standing));
        }
        match self {
            Self::Discard | Self::Cancel if entry.open_saga.is_some() => entry.open_saga.map(Skip::OpenSaga),
            Self::Hasten if entry.due => Some(Skip::Due),
            Self::Cancel if entry.lane_held => Some(Skip::LaneHeld),
            _ => None,
        }
    }
}

/// A selected entry, with the fields that a change depends on.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The row's sequence number.
    pub seq: i64,
    /// The event's id.
    pub event_id: EventId,
    /// The route.
    pub route: RouteName,
    /// The stored status.
    pub status: Status,
    /// The standing as an operator sees it.
    pub standing: Standing,
    /// Whether a relay holds the entry's lane.
    pub lane_held: bool,
    /// Whether the entry is due.
    pub due: bool,
    /// The saga that the entry is a step of, if that saga has not ended.
    pub open_saga: Option<SagaId>,
}

/// Separates the rows that allow the change from those that do not. Returns the former by sequence number, and the
/// answer for the operator. `entries` are in the order of their rows. `ids` are the ids that were asked for by
/// name.
///
/// # Errors
/// When a row cannot be read.
pub fn sift(
    entries: impl IntoIterator<Item = Result<Candidate>>,
    verb: Verb,
    ids: Option<&[EventId]>,
) -> Result<(Vec<i64>, Changed)> {
    let (mut picked, mut changed) = (Vec::new(), Changed::default());
    let (mut known, mut sagas) = (BTreeSet::new(), BTreeSet::new());
    for entry in entries {
        let entry = entry?;
        known.insert(entry.event_id);
        changed.cursor = Some(entry.seq);
        if entry.status == Status::Dead {
            sagas.extend(entry.open_saga);
        }
        match verb.refusal(&entry) {
            None => picked.push(entry.seq),
            Some(why) => changed.skip(Skipped { event_id: entry.event_id, route: entry.route, why }),
        }
    }
    changed.sagas = sagas.into_iter().take(usize::try_from(LIST_MAX).unwrap_or(usize::MAX)).collect();
    // An id that was named twice is missing once.
    changed.missing = ids.into_iter().flatten().copied().filter(|id| known.insert(*id)).collect();
    changed.changed = picked.len() as u64;
    Ok((picked, changed))
}

/// The filter of a selection by ids.
static ANY: LazyLock<Filter> = LazyLock::new(Filter::default);

/// The entries that an operator selects, by ids or by a filter, as parameters of a statement.
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    /// The filter.
    pub filter: &'a Filter,
    /// If set, selects these events and the filter does not apply.
    pub ids: Option<&'a [EventId]>,
    /// Only entries with these stored statuses.
    pub statuses: Vec<Status>,
    /// The most entries to select.
    pub limit: Option<u32>,
    /// Only entries that wait for their time.
    pub waits: bool,
    /// The time of the operation. `None`: the database's clock.
    pub now: Option<Timestamp>,
}

impl<'a> Asked<'a> {
    /// The entries that a filter lists.
    #[must_use]
    pub fn listed(filter: &'a Filter) -> Self {
        let statuses = filter.status.map_or(&Status::ALL[..], Standing::stored).to_vec();
        Self { filter, ids: None, statuses, limit: Some(filter.limit), waits: false, now: None }
    }

    /// The entries that a filter counts: the same, without a limit.
    #[must_use]
    pub fn counted(filter: &'a Filter) -> Self {
        Self { limit: None, ..Self::listed(filter) }
    }

    /// These events, whatever their standing.
    #[must_use]
    pub fn named(ids: &'a [EventId]) -> Self {
        Self { ids: Some(ids), ..Self::counted(&ANY) }
    }

    /// The entries that a change selects. A selection by ids asks for all of them, so that those that do not allow
    /// the change can be reported.
    #[must_use]
    pub fn selected(request: &'a SelectionRequest, verb: Verb) -> Self {
        let asked = match &request.selection {
            Selection::Ids(ids) => Self::named(ids),
            Selection::Matching(filter) => {
                let mut asked = Self { limit: request.limit, ..Self::listed(filter) };
                asked.statuses.retain(|status| status.after(verb.action()).is_some());
                asked.waits = verb == Verb::Hasten;
                asked
            }
        };
        Self { now: request.now, ..asked }
    }

    /// The lanes in which the entries can be, by [`lane_of`]: those of the requested key, or all.
    #[must_use]
    pub fn lanes(&self) -> Vec<u8> {
        let of_key = |key: &String| vec![lane_of(Some(key), EventId(Uuid::nil())), NO_LANE];
        self.filter.key.as_ref().map_or_else(|| (0..=NO_LANE).collect(), of_key)
    }

    /// Whether the requested standing cannot be seen from the stored status alone.
    #[must_use]
    pub fn is_derived(&self) -> bool {
        let live = |status: &Status| !status.is_terminal();
        self.filter.status.is_some_and(|standing| standing.stored().iter().any(live))
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::port::Effect;

    fn entry(seq: i64, status: Status) -> Candidate {
        Candidate {
            seq,
            event_id: EventId(Uuid::from_u128(seq.unsigned_abs().into())),
            route: RouteName::new("orders").unwrap(),
            status,
            standing: status.into(),
            lane_held: false,
            due: true,
            open_saga: None,
        }
    }

    #[test]
    fn what_cannot_be_changed_is_told_with_its_reason() {
        let saga = SagaId(Uuid::from_u128(9));
        let waits = || Candidate { due: false, ..entry(1, Status::Pending) };
        for (verb, entry, why) in [
            (Verb::Requeue, entry(1, Status::Dead), None),
            (Verb::Requeue, entry(1, Status::Pending), Some(Skip::Standing(Status::Pending.into()))),
            (
                Verb::Discard,
                Candidate { open_saga: Some(saga), ..entry(1, Status::Dead) },
                Some(Skip::OpenSaga(saga)),
            ),
            (Verb::Hasten, entry(1, Status::Pending), Some(Skip::Due)),
            (Verb::Hasten, waits(), None),
            (Verb::Cancel, Candidate { lane_held: true, ..waits() }, Some(Skip::LaneHeld)),
            (Verb::Cancel, waits(), None),
        ] {
            assert_eq!(verb.refusal(&entry), why, "{verb:?} {entry:?}");
        }
    }

    #[test]
    fn an_id_that_was_named_twice_is_missing_once() {
        let found = [Ok(entry(1, Status::Dead)), Ok(entry(2, Status::Delivered))];
        let ids = [1, 7, 7].map(|id| EventId(Uuid::from_u128(id)));
        let (picked, changed) = sift(found, Verb::Requeue, Some(&ids)).unwrap();
        assert_eq!((picked, changed.changed, changed.skipped), (vec![1], 1, 1));
        assert_eq!((changed.missing, changed.cursor), (vec![ids[1]], Some(2)));
    }

    #[test]
    fn a_selection_asks_for_what_it_can_change_unless_it_names_ids() {
        let request = |selection| SelectionRequest {
            selection,
            limit: Some(5),
            actor: "a".into(),
            effect: Effect::Apply,
            now: None,
        };
        let matching = request(Selection::Matching(Filter::default()));
        let asked = Asked::selected(&matching, Verb::Requeue);
        assert_eq!((asked.statuses, asked.limit, asked.waits), (vec![Status::Dead], Some(5), false));
        assert!(Asked::selected(&matching, Verb::Hasten).waits);
        let named = request(Selection::Ids(vec![]));
        let asked = Asked::selected(&named, Verb::Hasten);
        assert_eq!((asked.statuses, asked.limit, asked.waits), (Status::ALL.to_vec(), None, false));
    }
}
