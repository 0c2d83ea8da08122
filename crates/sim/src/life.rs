//! The history sorted by entry, and what the rules say that it leads to.

use std::collections::BTreeMap;
use std::sync::Arc;

use pillarbox_core::{EventId, Status};

use super::history::{Happened, Record, Row, Settling};

/// Everything that happened to one entry, in order.
#[derive(Debug, Default)]
pub(crate) struct Life {
    pub(crate) seq: i64,
    pub(crate) id: Option<EventId>,
    pub(crate) steps: Vec<LifeEvent>,
}

/// One thing that happened to an entry.
#[derive(Clone, Debug)]
pub(crate) struct LifeEvent {
    pub(crate) at: u64,
    pub(crate) db: i64,
    pub(crate) who: Arc<str>,
    pub(crate) what: What,
}

/// The kinds of steps that change an entry, or should not have.
#[derive(Clone, Debug)]
pub(crate) enum What {
    Granted {
        fence: i64,
        until: i64,
        attempts: u32,
        max_attempts: u32,
    },
    Extended {
        fence: i64,
        until: i64,
        accepted: bool,
    },
    Settled {
        fence: i64,
        verdict: Settling,
        accepted: bool,
    },
    Reaped {
        to: Option<Status>,
    },
    TakenOver {
        attempts: u32,
        to: Status,
    },
    LaneSettled {
        attempts: u32,
        verdict: Settling,
        accepted: bool,
    },
    Entered,
    Requeued,
    Discarded,
    Purged,
    Handed {
        fence: i64,
    },
    Delivered,
    Reported {
        fence: i64,
        outcome: super::history::Answer,
    },
    /// The row as it was seen; `None`: it was not there.
    Seen(Option<Row>),
}

/// Where an entry must be, by what happened to it so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// `None`: deleted.
    pub(crate) status: Option<Status>,
    pub(crate) attempts: u32,
    /// Claims that ended because their lease expired.
    pub(crate) crashes: u32,
    pub(crate) max_attempts: u32,
    pub(crate) fence: i64,
    /// When the lease was taken, or last prolonged.
    pub(crate) since: i64,
    pub(crate) until: i64,
}

impl State {
    const STAGED: Self = Self {
        status: Some(Status::Pending),
        attempts: 0,
        crashes: 0,
        max_attempts: u32::MAX,
        fence: 0,
        since: i64::MIN,
        until: i64::MIN,
    };

    /// How long the lease still lasts at this moment; not at all if it begins later than it is long: the clock was set
    /// back since.
    pub(crate) fn lease_left(&self, now: i64) -> i64 {
        let begins_late = self.since.saturating_sub(now) > self.until.saturating_sub(self.since);
        if self.status != Some(Status::InFlight) || begins_late {
            return 0;
        }
        self.until.saturating_sub(now).max(0)
    }

    /// Whether this fence may still change the entry.
    pub(crate) fn is_held_by(&self, fence: i64) -> bool {
        self.status == Some(Status::InFlight) && self.fence == fence
    }

    fn after(mut self, step: &LifeEvent, keeps_delivered: bool) -> Self {
        match step.what {
            What::Granted { fence, until, max_attempts, .. } => {
                self.status = Some(Status::InFlight);
                self.attempts += 1;
                (self.fence, self.max_attempts) = (fence, max_attempts);
                (self.since, self.until) = (step.db, until);
            }
            What::Extended { until, accepted: true, .. } => (self.since, self.until) = (step.db, until),
            What::Settled { verdict, accepted: true, .. } => self.settle(verdict, keeps_delivered),
            What::LaneSettled { verdict, attempts, accepted: true, .. } => {
                self.attempts = self.attempts.max(attempts);
                self.settle(verdict, keeps_delivered);
            }
            What::TakenOver { attempts, to } => {
                (self.attempts, self.status) = (attempts, Some(to));
                self.crashes += 1;
            }
            What::Reaped { to } => {
                self.status = to;
                self.crashes += 1;
            }
            What::Requeued => {
                self.status = Some(Status::Pending);
                (self.attempts, self.crashes) = (0, 0);
            }
            What::Discarded => self.status = Some(Status::Discarded),
            What::Purged => self.status = None,
            _ => {}
        }
        self
    }

    fn settle(&mut self, verdict: Settling, keeps_delivered: bool) {
        self.status = match verdict {
            Settling::Delivered => keeps_delivered.then_some(Status::Delivered),
            Settling::Retry => Some(Status::Retrying),
            Settling::Dead(_) => Some(Status::Dead),
            Settling::Release => {
                self.attempts = self.attempts.saturating_sub(1);
                Some(if self.attempts == 0 { Status::Pending } else { Status::Retrying })
            }
        };
    }
}

impl Life {
    /// Goes through the life step by step, showing where the entry was before each.
    pub(crate) fn walk(&self, keeps_delivered: bool, mut look: impl FnMut(&State, &LifeEvent)) -> State {
        let mut state = State::STAGED;
        for step in &self.steps {
            look(&state, step);
            state = state.after(step, keeps_delivered);
        }
        state
    }
}

/// Sorts a history by entry.
pub(crate) fn lives(records: &[Record]) -> Vec<Life> {
    let mut lives: BTreeMap<i64, Life> = BTreeMap::new();
    for record in records {
        if let Happened::Sampled { rows } = &record.what {
            saw(&mut lives, record, rows);
        } else if let Some((seq, id, what)) = step_of(&record.what) {
            let life = lives.entry(seq).or_insert_with(|| Life { seq, ..Life::default() });
            life.id = life.id.or(id);
            life.steps.push(step(record, what));
        }
    }
    lives.into_values().collect()
}

fn step(record: &Record, what: What) -> LifeEvent {
    LifeEvent { at: record.at, db: record.db, who: Arc::clone(&record.who), what }
}

/// A sample shows every entry: those that are there, and those that should be.
fn saw(lives: &mut BTreeMap<i64, Life>, record: &Record, rows: &[Row]) {
    let rows: BTreeMap<i64, Row> = rows.iter().map(|row| (row.seq, *row)).collect();
    for (seq, row) in &rows {
        lives.entry(*seq).or_insert_with(|| Life { seq: *seq, id: Some(row.id), ..Life::default() });
    }
    for (seq, life) in lives {
        life.steps.push(step(record, What::Seen(rows.get(seq).copied())));
    }
}

fn step_of(what: &Happened) -> Option<(i64, Option<EventId>, What)> {
    Some(match *what {
        Happened::Granted { seq, id, fence, until, attempts, max_attempts } => {
            (seq, Some(id), What::Granted { fence, until, attempts, max_attempts })
        }
        Happened::Extended { seq, fence, until, accepted } => {
            (seq, None, What::Extended { fence, until, accepted })
        }
        Happened::Settled { seq, fence, verdict, accepted, .. } => {
            (seq, None, What::Settled { fence, verdict, accepted })
        }
        Happened::Reaped { seq, to } => (seq, None, What::Reaped { to }),
        Happened::Entered { seq, id, .. } => (seq, Some(id), What::Entered),
        Happened::Requeued { seq } => (seq, None, What::Requeued),
        Happened::Discarded { seq } => (seq, None, What::Discarded),
        Happened::Purged { seq } => (seq, None, What::Purged),
        Happened::TakenOver { seq, attempts, to } => (seq, None, What::TakenOver { attempts, to }),
        Happened::LaneSettled { seq, attempts, verdict, accepted, .. } => {
            (seq, None, What::LaneSettled { attempts, verdict, accepted })
        }
        Happened::Handed { seq, fence, id, .. } => (seq, Some(id), What::Handed { fence }),
        Happened::Delivered { seq, id, .. } => (seq, Some(id), What::Delivered),
        Happened::Reported { seq, fence, outcome } => (seq, None, What::Reported { fence, outcome }),
        _ => return None,
    })
}
