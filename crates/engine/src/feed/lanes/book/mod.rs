//! What a reader of lanes knows: every unsettled entry that it has read, and which may go next.

mod incoming;
mod next;
mod noting;
mod suspects;

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use pillarbox_core::port::{Attendance, Head, HeadKind, LaneRow, Undecodable, Verdict};
use pillarbox_core::{Entry, Fence, Held, RowHint, Status, Timestamp};
use tokio::time::Instant;

use crate::seqs::{SeqMap, SeqSet};

use super::OnDead;
use super::chain::{Chain, Chains, Name};
use super::lane::{Lane, LaneMap};

use incoming::Incoming;

/// Most entries of one key that are kept with their payload; of the others only the seq is. Where many of one key go in one
/// batch, as many as a batch has.
const BODIES_PER_KEY_MIN: usize = 64;
const BODIES_PER_KEY_MAX: usize = 1024;

/// An entry that was handed out and has no verdict yet.
#[derive(Debug)]
pub(super) struct Handed {
    name: Name,
    pub(super) lane: u8,
    /// Under which it was: what was handed out under another one, by a session before this, is not this.
    fence: Fence,
    pub(super) attempts: u32,
    pub(super) hint: RowHint,
    /// Whether it is a row that cannot be read.
    unreadable: bool,
    /// Whether the destination has it, and only the record of that is missing.
    confirmed: bool,
    /// When the relay was last known to be at it.
    seen: Instant,
}

impl Chain {
    /// The head of a chain as it is handed out.
    fn hand_out(
        &mut self,
        name: Name,
        fence: Fence,
        mut entry: Entry,
        owner: &str,
        lease_end: Timestamp,
        at: Instant,
    ) -> (Entry, Handed) {
        self.queued.pop_front();
        self.handed += 1;
        self.open += 1;
        entry.attempts = entry.attempts.saturating_add(1);
        entry.status = Status::InFlight;
        entry.due_at = Some(lease_end);
        entry.owner = Some(owner.to_owned());
        entry.fence = fence;
        let (attempts, hint, lane) = (entry.attempts, entry.hint, self.lane);
        let (unreadable, confirmed) = (false, false);
        let handed = Handed { name, lane, fence, attempts, hint, unreadable, confirmed, seen: at };
        (entry, handed)
    }
}

/// The order of all lanes that are held.
///
/// **Invariant:** of one key nothing is handed out while something before it is known and neither settled nor confirmed by
/// the destination, unless both are handed out together: to a sink whose failure stops what follows, or because the route
/// allows several of a key at once.
/// **Invariant:** `known` is exactly what is queued or handed out.
#[derive(Debug)]
pub(super) struct Book {
    /// How many entries of one key may follow each other in one batch.
    per_key: usize,
    /// Most entries of one key that are kept with their payload.
    bodies_max: usize,
    on_dead: OnDead,
    pub(super) lanes: LaneMap,
    /// How many runs through lanes were begun.
    runs: u64,
    chains: Chains,
    known: SeqSet,
    bodies: SeqMap<Entry>,
    ready: BTreeMap<i64, Name>,
    /// What can go in small company, the least accused first.
    suspects: BTreeMap<(u32, i64), Name>,
    waiting: BTreeMap<(Instant, i64), Name>,
    /// How many chains are noted as following what was handed out.
    following: usize,
    /// When an entry becomes due, if that is not now.
    due: SeqMap<Instant>,
    /// How many leases of a suspect have expired.
    crashes: SeqMap<u32>,
    handed: SeqMap<Handed>,
    /// Rows that cannot be read and for which no claim had room yet. They count as handed out: no other relay
    /// has them.
    undecodable: Vec<Undecodable>,
    /// Entries of the last read that no claim has wanted yet, in order within each lane. They are put in their places
    /// as they are needed, so that the next read need not wait for it.
    incoming: Incoming,
    /// What was settled while a read was under way: the read may still show it.
    settled_meanwhile: SeqSet,
}

impl Book {
    pub(super) fn new(per_key: usize, on_dead: OnDead) -> Self {
        Self {
            per_key,
            bodies_max: per_key.clamp(BODIES_PER_KEY_MIN, BODIES_PER_KEY_MAX),
            on_dead,
            lanes: LaneMap::default(),
            runs: 0,
            chains: Chains::default(),
            known: SeqSet::default(),
            bodies: SeqMap::default(),
            ready: BTreeMap::new(),
            suspects: BTreeMap::new(),
            waiting: BTreeMap::new(),
            following: 0,
            due: SeqMap::default(),
            crashes: SeqMap::default(),
            handed: SeqMap::default(),
            undecodable: Vec::new(),
            incoming: Incoming::default(),
            settled_meanwhile: SeqSet::default(),
        }
    }

    /// Takes over the answer to a heartbeat.
    pub(super) fn attend(&mut self, attendance: &Attendance) {
        let held = |lane: u8| attendance.lanes.iter().any(|held| held.lane == lane);
        let gone: Vec<u8> = self.lanes.iter().map(|(lane, _)| lane).filter(|lane| !held(*lane)).collect();
        for lane in gone {
            self.drop_queued(lane);
            self.lanes.remove(lane);
        }
        for held in &attendance.lanes {
            let same = self.lanes.get(held.lane).is_some_and(|lane| lane.fence == held.fence);
            if !same {
                self.drop_queued(held.lane);
                let lane = self.begin_lane(held.fence);
                self.lanes.insert(held.lane, lane);
            }
            let surplus = attendance.surplus.contains(&held.lane);
            let leaving = self.lanes.get(held.lane).is_some_and(|lane| lane.leaving);
            if surplus && !leaving {
                self.drop_queued(held.lane);
            }
            if self.lanes.get(held.lane).is_some_and(|lane| lane.leaving != surplus) {
                let lane = Lane { leaving: surplus, ..self.begin_lane(held.fence) };
                self.lanes.insert(held.lane, lane);
            }
        }
    }

    /// A lane at its beginning.
    fn begin_lane(&mut self, fence: Fence) -> Lane {
        self.runs += 1;
        Lane::new(fence, self.runs)
    }

    /// Lanes to be handed over of which nothing is in flight.
    pub(super) fn leavable(&self) -> Vec<u8> {
        if !self.lanes.iter().any(|(_, lane)| lane.leaving) {
            return Vec::new();
        }
        let busy: HashSet<u8> = self.handed.values().map(|handed| handed.lane).collect();
        let leaving = self.lanes.iter().filter(|(number, lane)| lane.leaving && !busy.contains(number));
        leaving.map(|(number, _)| number).collect()
    }

    pub(super) fn left(&mut self, lanes: &[u8]) {
        for lane in lanes {
            self.lanes.remove(*lane);
        }
    }

    /// Everything that was held belongs to another session.
    pub(super) fn lost(&mut self) {
        *self = Self::new(self.per_key, self.on_dead);
    }

    /// How many the relay was given that have no verdict yet.
    pub(super) fn in_flight(&self) -> usize {
        self.handed.len().saturating_sub(self.undecodable.len())
    }

    /// Forgets everything of a lane that is not handed out.
    fn drop_queued(&mut self, lane: u8) {
        self.incoming.forget(lane);
        for name in self.chains.of_lane(lane) {
            let Some(chain) = self.chains.get_mut(name) else { continue };
            chain.dead.clear();
            for seq in std::mem::take(&mut chain.queued) {
                self.known.remove(&seq);
                self.bodies.remove(&seq);
                self.due.remove(&seq);
                self.crashes.remove(&seq);
            }
            self.note(name);
        }
    }

    /// Begins a read: what is settled from here on may still be in its answer.
    pub(super) fn begin_read(&mut self) {
        self.settled_meanwhile.clear();
    }

    /// Of what a read has seen below its cursors: what is not known, and so was committed late or requeued.
    pub(super) fn late(&self, present: &[i64]) -> Vec<i64> {
        let unknown = |seq: &&i64| !self.known.contains(*seq) && !self.settled_meanwhile.contains(*seq);
        present.iter().filter(unknown).copied().collect()
    }

    /// What is known of these lanes to wait for its time.
    pub(super) fn waiting_in(&self, lanes: &[u8]) -> Vec<i64> {
        let chains = self.chains.iter().filter(|(_, chain)| lanes.contains(&chain.lane));
        let queued = chains.flat_map(|(_, chain)| chain.queued.iter().copied());
        queued.filter(|seq| self.due.contains_key(seq)).collect()
    }

    /// Adds an entry that was read, or fills in the payload of a known one.
    pub(super) fn add(&mut self, entry: Entry, now: Timestamp, at: Instant) {
        let Some(lane) = entry.lane.filter(|lane| self.lanes.get(*lane).is_some_and(|lane| !lane.leaving))
        else {
            return;
        };
        let seq = entry.seq;
        if self.handed.contains_key(&seq) || self.settled_meanwhile.contains(&seq) {
            return;
        }
        let alone = Name::Alone(seq);
        if entry.key.is_some()
            && let Some(chain) = self.chains.get_mut(alone)
        {
            // It could not be read before, so its key was not known.
            chain.remove(seq);
            self.note(alone);
        }
        let due = entry.due_at.filter(|due| *due > now);
        match due {
            Some(due) => {
                let micros = u64::try_from(due.as_micros().saturating_sub(now.as_micros())).unwrap_or(0);
                self.due.insert(seq, at + Duration::from_micros(micros));
            }
            None => {
                self.due.remove(&seq);
            }
        }
        self.known.insert(seq);
        if entry.is_suspect() {
            self.crashes.insert(seq, entry.crashes);
        } else {
            self.crashes.remove(&seq);
        }
        let (name, chain) = self.chains.of(seq, entry.key.as_deref(), lane);
        chain.insert(seq);
        // The payloads of entries that cannot go soon are fetched when they can.
        let soon = chain.queued.get(self.bodies_max).is_none_or(|far| seq < *far);
        if soon && due.is_none() && !chain.is_blocked(seq) {
            self.bodies.insert(seq, entry);
        }
        self.note_at(name, at);
    }

    /// Adds a row that cannot be read: nothing of its lane that has a key goes on until its verdict is recorded.
    pub(super) fn add_undecodable(&mut self, row: LaneRow, at: Instant) {
        let Some(lane) = self.lanes.get(row.lane).filter(|lane| !lane.leaving) else { return };
        let fence = lane.fence;
        let seq = row.row.held.seq;
        if self.handed.contains_key(&seq) || self.settled_meanwhile.contains(&seq) {
            return;
        }
        if self.known.contains(&seq) {
            self.forget(seq);
        }
        let held = Held { seq, fence };
        self.known.insert(seq);
        let (name, chain) = self.chains.of(seq, None, row.lane);
        (chain.handed, chain.open) = (1, 1);
        let (lane, hint) = (row.lane, RowHint::default());
        let (unreadable, confirmed) = (true, false);
        let handed = Handed { name, lane, fence, attempts: 1, hint, unreadable, confirmed, seen: at };
        self.handed.insert(seq, handed);
        self.undecodable.push(Undecodable { held, ..row.row });
        if let Some(lane) = self.lanes.get_mut(row.lane) {
            lane.unreadable += 1;
        }
        self.note_lane(row.lane);
    }

    /// What holds back keys in these lanes, as the store has it now.
    pub(super) fn set_heads(&mut self, lanes: &[u8], heads: Vec<Head>) {
        let mut touched: Vec<Name> = Vec::new();
        for (name, chain) in self.chains.iter_mut() {
            if lanes.contains(&chain.lane) && !chain.dead.is_empty() {
                // What died while the store was asked may be missing in its answer.
                chain.dead.retain(|seq| self.settled_meanwhile.contains(seq));
                touched.push(name);
            }
        }
        for Head { seq, key, lane, kind } in heads {
            if kind == HeadKind::Dead && self.on_dead == OnDead::Skip {
                continue;
            }
            let (name, chain) = self.chains.of(seq, Some(&key), lane);
            chain.dead.insert(seq);
            touched.push(name);
        }
        for name in touched {
            self.note(name);
        }
    }

    /// Entries that were looked for by seq and are not there: another session or an operator has settled or
    /// discarded them.
    pub(super) fn forget_missing(&mut self, wanted: &[i64], found: &HashSet<i64>) {
        for seq in wanted.iter().filter(|seq| !found.contains(seq)) {
            let lane = self.forget(*seq);
            // It may be dead, by a verdict whose answer never came: then it holds back what is behind it.
            if let Some(lane) = lane.filter(|_| self.on_dead == OnDead::Block) {
                self.doubt(lane);
            }
        }
    }

    /// Returns the lane of its key, if it was queued.
    fn forget(&mut self, seq: i64) -> Option<u8> {
        let named =
            |name: Name, chain: &Chain| name == Name::Alone(seq) || chain.queued.binary_search(&seq).is_ok();
        let name = match self.bodies.get(&seq) {
            Some(entry) => self.chains.name_of(seq, entry.key.as_deref()),
            // Rare: an operator was faster.
            None => self.chains.iter().find(|(name, chain)| named(*name, chain)).map(|(name, _)| name),
        };
        self.known.remove(&seq);
        self.due.remove(&seq);
        self.crashes.remove(&seq);
        self.bodies.remove(&seq);
        let name = name?;
        let chain = self.chains.get_mut(name)?;
        chain.remove(seq);
        let lane = chain.lane;
        self.note(name);
        matches!(name, Name::Key(_)).then_some(lane)
    }

    /// Hands out what may go now, oldest first.
    pub(super) fn hand_out(
        &mut self,
        limit: usize,
        owner: &str,
        lease_end: Timestamp,
        at: Instant,
    ) -> Vec<Entry> {
        // Entries are large: they are not moved once more because there are many.
        let mut out = Vec::with_capacity(limit.min(self.bodies.len()));
        let mut touched = Vec::new();
        let all_of_a_key = self.hands_out_prefixes();
        while out.len() < limit {
            let Some((_, name)) = self.ready.pop_first() else { break };
            let Some(chain) = self.chains.get_mut(name) else { continue };
            chain.noted = None;
            touched.push(name);
            let before = out.len();
            while out.len() < limit && out.len() - before < self.per_key {
                let Some(seq) = chain.queued.front().copied() else { break };
                let waits = self.due.contains_key(&seq) && out.len() > before;
                if waits || chain.is_blocked(seq) || self.crashes.contains_key(&seq) {
                    break;
                }
                let Some(entry) = self.bodies.remove(&seq) else { break };
                self.due.remove(&seq);
                let fence = self.lanes.get(chain.lane).map_or(Fence::NONE, |lane| lane.fence);
                let (entry, handed) = chain.hand_out(name, fence, entry, owner, lease_end, at);
                self.handed.insert(seq, handed);
                // One that has failed before goes without company: else each further failure would let more overtake it.
                let goes_alone = entry.attempts > 1 && !all_of_a_key;
                out.push(entry);
                if goes_alone {
                    break;
                }
            }
        }
        for name in touched {
            self.note_at(name, at);
        }
        out
    }

    /// Hands out rows that cannot be read: they take places in flight as entries do.
    pub(super) fn take_undecodable(&mut self, limit: usize, at: Instant) -> Vec<Undecodable> {
        let taken: Vec<_> = self.undecodable.drain(..limit.min(self.undecodable.len())).collect();
        taken.iter().for_each(|row| self.seen(row.held, at));
        taken
    }

    /// The entry of this claim, if it is in flight under it.
    pub(super) fn handed(&self, held: Held) -> Option<&Handed> {
        let handed = self.handed.get(&held.seq).filter(|handed| handed.fence == held.fence)?;
        self.lanes.get(handed.lane).filter(|lane| lane.fence == held.fence).map(|_| handed)
    }

    /// Forgets a claim under which nothing can be settled any more. One of the same entry that came after it stays.
    pub(super) fn drop_claim(&mut self, held: Held) {
        let stale = self.handed.get(&held.seq).is_some_and(|handed| handed.fence == held.fence);
        if !stale || self.handed(held).is_some() {
            return;
        }
        let Some(Handed { name, lane, unreadable, confirmed, .. }) = self.handed.remove(&held.seq) else {
            return;
        };
        self.known.remove(&held.seq);
        if unreadable {
            self.unreadable_settled(lane);
        }
        if let Some(chain) = self.chains.get_mut(name) {
            chain.end(confirmed);
        }
        self.note(name);
    }

    /// The destination has it: what is behind it can go. Should it come again, because that was never recorded, it has still
    /// been there before what is behind it.
    pub(super) fn confirmed(&mut self, held: Held, at: Instant) {
        let Some(handed) = self.handed.get_mut(&held.seq).filter(|handed| handed.fence == held.fence) else {
            return;
        };
        if std::mem::replace(&mut handed.confirmed, true) {
            return;
        }
        let name = handed.name;
        if let Some(chain) = self.chains.get_mut(name) {
            chain.open -= 1;
        }
        self.note_at(name, at);
    }

    /// The relay is still at it.
    pub(super) fn seen(&mut self, held: Held, at: Instant) {
        if let Some(handed) = self.handed.get_mut(&held.seq).filter(|handed| handed.fence == held.fence) {
            handed.seen = at;
        }
    }

    /// Puts back what the relay has given up without a verdict, because none could be recorded. Suspects stay out: their
    /// attempt counts when the session ends.
    pub(super) fn put_back_abandoned(&mut self, since: Instant) -> usize {
        let waiting: HashSet<i64> = self.undecodable.iter().map(|row| row.held.seq).collect();
        let abandoned = self.handed.iter().filter(|(seq, handed)| {
            handed.seen < since && !waiting.contains(seq) && !self.crashes.contains_key(seq)
        });
        let abandoned: Vec<i64> = abandoned.map(|(seq, _)| *seq).collect();
        for seq in &abandoned {
            self.settled(*seq, &Verdict::release(None), Instant::now());
        }
        abandoned.len()
    }

    /// A verdict is recorded.
    pub(super) fn settled(&mut self, seq: i64, verdict: &Verdict, at: Instant) {
        let Some(Handed { name, lane, unreadable, confirmed, .. }) = self.handed.remove(&seq) else { return };
        let Some(chain) = self.chains.get_mut(name) else { return };
        chain.end(confirmed);
        let leaving = self.lanes.get(chain.lane).is_none_or(|lane| lane.leaving);
        match verdict {
            Verdict::Retry { .. } | Verdict::Park { .. } | Verdict::Release { .. } if leaving => {
                self.known.remove(&seq);
            }
            Verdict::Retry { after, .. } | Verdict::Park { after, .. } => {
                // What is behind it waits as well, and need not take room meanwhile.
                for behind in chain.queued.iter().take(self.bodies_max) {
                    self.bodies.remove(behind);
                }
                chain.insert(seq);
                self.crashes.remove(&seq);
                self.due.insert(seq, at + *after);
            }
            Verdict::Release { .. } => chain.insert(seq),
            Verdict::Dead { .. } | Verdict::Delivered => {
                self.known.remove(&seq);
                self.crashes.remove(&seq);
                self.settled_meanwhile.insert(seq);
                let blocks = matches!(verdict, Verdict::Dead { .. }) && self.on_dead == OnDead::Block;
                if blocks && matches!(name, Name::Key(_)) && !leaving {
                    chain.dead.insert(seq);
                }
            }
        }
        self.note_at(name, at);
        if unreadable {
            self.unreadable_settled(lane);
        }
    }
}
