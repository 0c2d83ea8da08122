//! What was staged on one route beside what arrived of it. Pure: what is read comes in, findings come out.

mod moment;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use pillarbox_core::port::InventoryRow;
use pillarbox_core::{Attributes, EventId, Status};
use uuid::Uuid;

pub(crate) use moment::{KeyHistory, Moment};

/// What the table says of an entry that has not arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Delivered, or gone: it must have arrived.
    Done,
    /// Not at its end yet.
    Waiting,
    Dead,
    Discarded,
}

impl From<Status> for State {
    fn from(status: Status) -> Self {
        match status {
            Status::Pending | Status::InFlight | Status::Retrying => Self::Waiting,
            Status::Delivered => Self::Done,
            Status::Dead => Self::Dead,
            Status::Discarded => Self::Discarded,
        }
    }
}

/// An entry that was staged.
struct Item {
    /// The number of its key; none without one.
    key: Option<u32>,
    moment: Moment,
    state: State,
    times: u32,
}

/// A message with an id that is not of this route.
#[derive(Default)]
struct Stranger {
    /// Its place in the table that it came from, if the envelope tells.
    seq: Option<i64>,
    /// What a second look at the table has found.
    found: Found,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Found {
    #[default]
    Nothing,
    /// Staged on this route after the first look.
    Here,
    /// Staged on another route that delivers to the same place.
    Elsewhere,
    /// There is another event at its place.
    PlaceTaken,
}

/// Which events say that they had a place in the table.
pub(crate) type Claims = HashMap<i64, Vec<EventId>>;

/// Which record of what was staged is the whole truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Truth {
    /// The table: what is in it now.
    Table,
    /// What the application has written down itself.
    File,
}

/// The comparison of one route.
pub(crate) struct Ledger {
    truth: Truth,
    items: HashMap<EventId, Item>,
    keys: HashMap<String, u32>,
    /// What has arrived of each key.
    lines: Vec<KeyHistory>,
    /// What the application's record has on other routes.
    others: HashSet<EventId>,
    strangers: HashMap<EventId, Stranger>,
    received: u64,
    unreadable: u64,
    late: Vec<EventId>,
}

impl Ledger {
    pub(crate) fn new(truth: Truth) -> Self {
        Self {
            truth,
            items: HashMap::new(),
            keys: HashMap::new(),
            lines: Vec::new(),
            others: HashSet::new(),
            strangers: HashMap::new(),
            received: 0,
            unreadable: 0,
            late: Vec::new(),
        }
    }

    /// Something was staged. The same id again is the same entry.
    pub(crate) fn stage(&mut self, id: EventId, key: Option<&str>, moment: Moment, state: State) {
        let key = key.map(|key| match self.keys.get(key) {
            Some(number) => *number,
            None => {
                let number = u32::try_from(self.lines.len()).unwrap_or(u32::MAX);
                self.keys.insert(key.to_owned(), number);
                self.lines.push(KeyHistory::default());
                number
            }
        });
        self.items.entry(id).or_insert(Item { key, moment, state, times: 0 });
    }

    /// Something was staged on another route.
    pub(crate) fn stage_elsewhere(&mut self, id: EventId) {
        self.others.insert(id);
    }

    /// The table says what became of an entry.
    pub(crate) fn became(&mut self, id: EventId, state: State) {
        if let Some(item) = self.items.get_mut(&id) {
            item.state = state;
        }
    }

    /// A message is in the destination, after those before.
    pub(crate) fn arrive(&mut self, attributes: &Attributes) {
        self.received += 1;
        let id = attributes.get("id").and_then(|id| Uuid::try_parse(id).ok()).map(EventId);
        let Some(id) = id else {
            self.unreadable += 1;
            return;
        };
        let Some(item) = self.items.get_mut(&id) else {
            let seq = attributes.get("pillarboxseq").and_then(|seq| seq.parse().ok());
            let stranger = self.strangers.entry(id).or_default();
            stranger.seq = seq;
            if self.others.contains(&id) {
                stranger.found = Found::Elsewhere;
            }
            return;
        };
        item.times = item.times.saturating_add(1);
        let line = item.key.and_then(|key| self.lines.get_mut(usize::try_from(key).ok()?));
        // Only the first delivery has a place in the order.
        if let Some(line) = line.filter(|_| item.times == 1)
            && line.arrive(item.moment)
        {
            self.late.push(id);
        }
    }

    /// Whether something arrived that is not known here.
    pub(crate) fn has_strangers(&self) -> bool {
        !self.strangers.is_empty()
    }

    /// The places that strangers say they had in the table.
    pub(crate) fn claims(&self) -> Claims {
        let mut claims = Claims::new();
        for (id, stranger) in &self.strangers {
            if let Some(seq) = stranger.seq {
                claims.entry(seq).or_default().push(*id);
            }
        }
        claims
    }

    /// A second look at the table, after everything has arrived: who was it, then?
    pub(crate) fn look(&mut self, row: &InventoryRow, is_this_route: bool, claims: &Claims) {
        if let Some(stranger) = self.strangers.get_mut(&row.event_id) {
            stranger.found = match self.truth {
                _ if !is_this_route => Found::Elsewhere,
                Truth::Table => Found::Here,
                Truth::File => stranger.found,
            };
        }
        for id in claims.get(&row.seq).into_iter().flatten().filter(|id| **id != row.event_id) {
            if let Some(stranger) = self.strangers.get_mut(id).filter(|one| one.found == Found::Nothing) {
                stranger.found = Found::PlaceTaken;
            }
        }
    }

    /// What was found. `was_purged`: rows have been deleted from the table by age.
    pub(crate) fn findings(&self, was_purged: bool) -> Findings {
        let missing = |state: State| {
            let missing = self.items.iter().filter(|(_, item)| item.times == 0 && item.state == state);
            let mut missing: Vec<_> = missing.map(|(id, item)| (item.moment, *id)).collect();
            missing.sort_unstable_by_key(|(moment, id)| (moment.rank(), *id));
            missing.into_iter().map(|(_, id)| id).collect::<Vec<EventId>>()
        };
        let twice = self.items.iter().filter(|(_, item)| item.times > 1);
        let mut duplicated: Vec<_> = twice.map(|(id, item)| (item.moment.rank(), *id, item.times)).collect();
        duplicated.sort_unstable();
        let mut findings = Findings {
            staged: count(self.items.len()),
            received: self.received,
            waiting: count(missing(State::Waiting).len()),
            dead: count(missing(State::Dead).len()),
            discarded: count(missing(State::Discarded).len()),
            lost: missing(State::Done),
            duplicated: duplicated.into_iter().map(|(_, id, times)| (id, times)).collect(),
            unreadable: self.unreadable,
            out_of_order: self.late.clone(),
            ..Findings::default()
        };
        for (id, stranger) in &self.strangers {
            match stranger.found {
                Found::Here => {}
                Found::Elsewhere => findings.elsewhere += 1,
                Found::Nothing if was_purged && self.truth == Truth::Table && stranger.seq.is_some() => {
                    findings.purged += 1;
                }
                Found::Nothing | Found::PlaceTaken => findings.invented.push(*id),
            }
        }
        findings.invented.sort_unstable();
        findings
    }

    /// The key of an entry, for people.
    pub(crate) fn key_of(&self, id: EventId) -> Option<&str> {
        let number = self.items.get(&id)?.key?;
        self.keys.iter().find(|(_, key)| **key == number).map(|(key, _)| key.as_str())
    }
}

/// What the comparison of one route has found.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Findings {
    /// Entries that were staged.
    pub(crate) staged: u64,
    /// Messages that the destination holds.
    pub(crate) received: u64,
    /// Not there, and not to be there yet.
    pub(crate) waiting: u64,
    /// Not there, and given up.
    pub(crate) dead: u64,
    pub(crate) discarded: u64,
    /// Not there, and should be.
    pub(crate) lost: Vec<EventId>,
    /// There more than once, and how often.
    pub(crate) duplicated: Vec<(EventId, u32)>,
    /// There, and never staged.
    pub(crate) invented: Vec<EventId>,
    /// There, and no event.
    pub(crate) unreadable: u64,
    /// There for the first time after something that it should have come before.
    pub(crate) out_of_order: Vec<EventId>,
    /// There, and staged on another route.
    pub(crate) elsewhere: u64,
    /// There, and perhaps staged once: the table has been purged since.
    pub(crate) purged: u64,
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
