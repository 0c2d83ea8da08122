//! Who held which lane when, and where each entry was, by what took effect.

use std::collections::BTreeMap;
use std::sync::Arc;

use pillarbox_core::Status;

use super::super::super::history::{Answer, Happened, Record, Settling};
use super::{Entered, Evidence, entered};

/// A session that was not buried and has not left.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) who: Arc<str>,
    pub(super) from_micros: i64,
    pub(super) until_micros: i64,
    /// Its lanes and their fences.
    pub(super) lanes: BTreeMap<u8, i64>,
}

/// Where an entry is.
#[derive(Clone, Debug)]
pub(super) struct EntryState<'a> {
    pub(super) entered: &'a Entered<'a>,
    /// `None`: deleted.
    pub(super) status: Option<Status>,
    pub(super) attempts: u32,
    /// Attempts that ended because a session was buried.
    pub(super) crashes: u32,
    pub(super) due_micros: Option<i64>,
    /// The fence under which it was last handed to a sink, and the attempt that this was.
    pub(super) handed: Option<(i64, u32)>,
}

impl EntryState<'_> {
    pub(super) fn is_unsettled(&self) -> bool {
        matches!(self.status, Some(Status::Pending | Status::Retrying))
    }

    pub(super) fn is_due(&self, now_micros: i64) -> bool {
        self.due_micros.is_none_or(|due| due <= now_micros)
    }
}

/// A world by lanes at one moment.
#[derive(Default)]
pub(super) struct Model<'a> {
    pub(super) sessions: BTreeMap<&'a str, Session>,
    /// The last fence of each lane.
    pub(super) fences: BTreeMap<u8, i64>,
    pub(super) places: BTreeMap<i64, EntryState<'a>>,
}

impl<'a> Model<'a> {
    /// Sessions whose lease has ended, but for one.
    pub(super) fn expired(&self, but: &str, now_micros: i64) -> Vec<&'a str> {
        let late = |session: &Session| {
            // Or it begins later than it is long: the clock was set back since.
            let (from, until) = (session.from_micros, session.until_micros);
            until <= now_micros || from.saturating_sub(now_micros) > until.saturating_sub(from)
        };
        let expired = self.sessions.iter().filter(|(name, session)| **name != but && late(session));
        expired.map(|(name, _)| *name).collect()
    }

    /// Whether a session holds the lane of an entry under this fence.
    pub(super) fn holds(&self, session: &str, seq: i64, fence: i64) -> bool {
        let lane = self.places.get(&seq).map(|place| place.entered.lane);
        let session = self.sessions.get(session);
        lane.is_some_and(|lane| session.is_some_and(|session| session.lanes.get(&lane) == Some(&fence)))
    }

    fn apply(&mut self, record: &'a Record, keeps_delivered: bool) {
        match &record.what {
            Happened::Attended { session, now_micros, until_micros, lost: false, lanes, .. } => {
                for expired in self.expired(session, *now_micros) {
                    self.sessions.remove(expired);
                }
                self.fences.extend(lanes.iter().copied());
                let (who, from_micros, until_micros) = (Arc::clone(&record.who), *now_micros, *until_micros);
                let lanes = lanes.iter().copied().collect();
                self.sessions.insert(session, Session { who, from_micros, until_micros, lanes });
            }
            Happened::SessionsReaped { now_micros, .. } => {
                for expired in self.expired("", *now_micros) {
                    self.sessions.remove(expired);
                }
            }
            Happened::HandedOver { session, lanes: Some(lanes) } => {
                if let Some(session) = self.sessions.get_mut(session.as_str()) {
                    session.lanes.retain(|lane, _| !lanes.contains(lane));
                }
            }
            Happened::HandedOver { session, lanes: None } => drop(self.sessions.remove(session.as_str())),
            Happened::TakenOver { seq, .. }
            | Happened::LaneSettled { seq, accepted: true, .. }
            | Happened::Granted { seq, .. }
            | Happened::Settled { seq, accepted: true, .. }
            | Happened::Reaped { seq, .. }
            | Happened::Handed { seq, .. }
            | Happened::Reported { seq, outcome: Answer::Down | Answer::Untried, .. }
            | Happened::Requeued { seq }
            | Happened::Discarded { seq }
            | Happened::Purged { seq } => {
                if let Some(place) = self.places.get_mut(seq) {
                    place.apply(&record.what, keeps_delivered);
                }
            }
            _ => {}
        }
    }
}

impl EntryState<'_> {
    fn apply(&mut self, what: &Happened, keeps_delivered: bool) {
        match *what {
            Happened::TakenOver { attempts, to, .. } => {
                (self.attempts, self.status, self.due_micros) = (attempts, Some(to), None);
                self.crashes += 1;
            }
            Happened::LaneSettled { attempts, due_micros, verdict, .. } => {
                self.attempts = self.attempts.max(attempts);
                self.due_micros = due_micros;
                self.handed = None;
                self.status = match verdict {
                    Settling::Delivered => keeps_delivered.then_some(Status::Delivered),
                    Settling::Retry => Some(Status::Retrying),
                    Settling::Dead(_) => Some(Status::Dead),
                    Settling::Release => self.status,
                };
            }
            Happened::Granted { .. } => {
                self.attempts += 1;
                (self.status, self.handed) = (Some(Status::InFlight), None);
            }
            Happened::Settled { verdict, due_micros, .. } => {
                (self.handed, self.due_micros) = (None, due_micros);
                self.settle_row(verdict, keeps_delivered);
            }
            Happened::Reaped { to, .. } => {
                (self.status, self.due_micros) = (to, None);
                self.crashes += 1;
            }
            Happened::Handed { fence, attempts, .. } => self.handed = Some((fence, attempts)),
            // A destination that is down has nothing of it: it is given back, and not in flight any more.
            Happened::Reported { .. } => self.handed = None,
            Happened::Requeued { .. } => {
                (self.attempts, self.status, self.due_micros) = (0, Some(Status::Pending), None);
                self.crashes = 0;
                self.handed = None;
            }
            Happened::Discarded { .. } => self.status = Some(Status::Discarded),
            Happened::Purged { .. } => self.status = None,
            _ => {}
        }
    }
}

impl EntryState<'_> {
    fn settle_row(&mut self, verdict: Settling, keeps_delivered: bool) {
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

/// Goes through a history record by record, showing where everything was before each.
pub(super) fn walk(evidence: &Evidence, mut look: impl FnMut(&Model<'_>, &Record)) {
    let entered = entered(evidence);
    let mut model = Model::default();
    for record in &evidence.records {
        look(&model, record);
        if let Happened::Entered { seq, due_micros, .. } = record.what
            && let Some(entered) = entered.get(&seq)
        {
            let status = Some(Status::Pending);
            model.places.insert(
                seq,
                EntryState { entered, status, attempts: 0, crashes: 0, due_micros, handed: None },
            );
        }
        model.apply(record, evidence.keeps_delivered());
    }
}
