//! Reading ahead: enough entries that can go now, with whatever must go before them.

use std::collections::HashSet;
use std::time::Duration;

use pillarbox_core::limits::BATCH_MAX;
use pillarbox_core::port::{
    FetchRequest, Fetched, HeadKind, HeadsRequest, LANES, LanePosition, LaneRead, ReadRequest, Seen,
    SessionId,
};
use pillarbox_core::{Fence, Result};
use tokio::time::Instant;

use super::horizon::{Set, set};
use super::lane::{Lane, LaneMap};
use super::{LaneReader, State};

/// How often the store is asked who is writing, and after how many entries at the latest: what is read between two
/// questions is passed over with each read.
const WRITERS_INTERVAL: Duration = Duration::from_millis(100);
const WRITERS_ENTRIES: usize = 500;
/// How many lanes are read at once at least while all of them are full.
const LANES_PER_TURN: usize = 16;
/// How much of a lane is read at least, if there is room for as much of each.
const CHUNK_LEAST: usize = 8;
/// How many times as much as a claim wants is read at once, and kept ready for the next ones.
const READ_AHEAD: usize = 4;
/// Most reads of one claim that has something to hand out already.
const READS_MAX: u32 = 4;
/// How long nothing more is read because enough entries can go once those before them are confirmed. Those of other keys
/// are looked for all the same, now and then: a destination may take its time.
const FOLLOWING_MAX: Duration = Duration::from_millis(100);
/// How often the store is asked whether relays by rows still have something in flight.
const LEASED_INTERVAL: Duration = Duration::from_millis(100);

impl LaneReader {
    /// Reads what later claims will hand out, so that they need not wait: the store finds it while the sink is busy.
    pub(super) async fn read_on(&self, limit: usize) -> Result<()> {
        let Ok(_reading) = self.reading.try_lock() else { return Ok(()) };
        let wanted = {
            let mut state = self.state();
            let enough = state.read_at_once(limit, self.options.bytes_max);
            state.joined && state.book.ahead(Instant::now(), READ_AHEAD, enough) < enough
        };
        if wanted {
            self.read(limit, &mut HashSet::new(), None).await?;
        }
        Ok(())
    }

    /// Reads until `limit` entries can be handed out, or nothing more is there.
    pub(super) async fn read_ahead(&self, limit: usize) -> Result<()> {
        let begun = Instant::now();
        let mut exhausted = HashSet::new();
        for reads in 0.. {
            let (enough, some) = {
                let mut state = self.state();
                (state.has_enough(limit), !state.unplaced && state.book.ready(Instant::now(), 1) > 0)
            };
            // However much stands behind keys that wait: a claim has to end.
            let enough = enough || (some && reads >= READS_MAX);
            if limit == 0 || enough || begun.elapsed() > self.options.lease / 8 {
                break;
            }
            if !self.read(limit, &mut exhausted, None).await? {
                break;
            }
        }
        while self.state().book.ready(Instant::now(), 1) > 0 {
            let (session, missing) = {
                let state = self.state();
                (state.session, state.book.missing(limit))
            };
            if missing.is_empty() {
                break;
            }
            self.fetch(session, missing).await?;
        }
        Ok(())
    }

    /// One read of every lane that may have more. `false`: there is none. With `since`, these lanes are looked at from
    /// their beginning, for what became visible since they had these revisions.
    async fn read(
        &self,
        limit: usize,
        exhausted: &mut HashSet<u8>,
        since: Option<&[(u8, i64)]>,
    ) -> Result<bool> {
        let anew = since.is_some();
        let (request, fences) = {
            let mut state = self.state();
            if !anew {
                state.doubt_leased();
            }
            let positions = state.positions(limit, self.options.bytes_max, exhausted, anew);
            if positions.is_empty() {
                return Ok(false);
            }
            // Looking from the beginning misses nothing, and hands out nothing.
            let writers = !anew && state.asks_who_is_writing();
            state.book.begin_read();
            if !anew {
                state.horizon.begin();
            }
            let (fences, seen) = (state.book.fences(), state.seen(&positions));
            let (route, session) = (self.route.clone(), state.session);
            (ReadRequest { route, session, positions, writers, seen }, fences)
        };
        let (session, mut positions, writers) = (request.session, request.positions.clone(), request.writers);
        let at = Instant::now();
        let mut read = self.lanes.read(request).await?;
        let (late, changed, missed) = {
            let mut state = self.state();
            state.heard = Some((read.now, at));
            state.lose_if(read.lost, session);
            if state.session != session || read.lost {
                return Ok(false);
            }
            forget_replaced(&state.book.lanes, &fences, &mut read, &mut positions);
            // What is known is what this read is compared with.
            state.book.place_all();
            let lanes = lanes_of(&positions);
            let missed = if writers { state.horizon.writing(&read.writers, lanes) } else { 0 };
            // If one of the next calls fails, nothing goes before a later read has put everything in its place.
            state.unplaced = true;
            (state.book.late(&read.present), state.changed(&read), missed)
        };
        // Before anything of this read can be handed out, what must go before it is put in its place.
        if !changed.is_empty() && !anew {
            self.start_anew(session, &changed, limit).await?;
        }
        if !late.is_empty() {
            self.fetch(session, late).await?;
        }
        if missed != 0 && !self.look(session, missed).await? {
            return Ok(false);
        }
        let mut state = self.state();
        if state.session == session {
            // The calls in between took their time, too.
            forget_replaced(&state.book.lanes, &fences, &mut read, &mut positions);
            if let Some(changed) = since {
                // Changed once more since: what was found to be dead, and what was not, is not what it was before.
                let same = changed.iter().filter(|lane| read.revisions.contains(lane));
                same.for_each(|(lane, revision)| state.book.looked_at(*lane, *revision));
                // The read of which this is a part goes on, and has seen less than this one.
                state.horizon.looked(lanes_of(&positions));
            }
            let (writing, drawn) = (writers.then(|| read.writers.clone()), read.drawn);
            state.took(read, &positions, exhausted, at);
            if !anew {
                state.read_ended(&positions, drawn, writing.as_deref());
                state.unplaced = false;
            }
        }
        Ok(true)
    }

    /// Looks at lanes where the read that is under way did not: a transaction that could commit something there has
    /// ended. `false`: the session was lost.
    async fn look(&self, session: SessionId, missed: Set) -> Result<bool> {
        let (positions, seen) = {
            let state = self.state();
            let lanes = state.book.lanes.iter().filter(|(number, _)| set(*number) & missed != 0);
            let position = |(number, lane): (u8, &Lane)| LanePosition {
                lane: number,
                floor: state.horizon.look_from(number, lane.floor),
                cursor: lane.cursor,
                limit: 0,
            };
            let positions: Vec<_> = lanes.map(position).collect();
            let seen = state.seen(&positions);
            (positions, seen)
        };
        let request = ReadRequest { route: self.route.clone(), session, positions, writers: false, seen };
        let read = self.lanes.read(request).await?;
        let late = {
            let mut state = self.state();
            state.lose_if(read.lost, session);
            if state.session != session || read.lost {
                return Ok(false);
            }
            state.book.late(&read.present)
        };
        if !late.is_empty() {
            self.fetch(session, late).await?;
        }
        let mut state = self.state();
        if state.session == session {
            state.horizon.looked(missed);
        }
        Ok(true)
    }

    /// Looks at lanes from their beginning: they are new, or an operator has changed something in them.
    async fn start_anew(&self, session: SessionId, changed: &[(u8, i64)], limit: usize) -> Result<()> {
        let lanes: Vec<u8> = changed.iter().map(|(lane, _)| *lane).collect();
        {
            // If one of the next calls fails, it is known that something is missing until a later one does not.
            let mut state = self.state();
            if state.session == session {
                lanes.iter().for_each(|lane| state.book.doubt(*lane));
            }
        }
        let request = HeadsRequest { route: self.route.clone(), lanes: lanes.clone() };
        let heads = self.lanes.heads(request).await?;
        {
            let mut state = self.state();
            if state.session == session {
                let leased = heads.iter().filter(|head| head.kind == HeadKind::Leased);
                let leased = leased.fold(0, |leased, head| leased | set(head.lane));
                let looked = lanes.iter().fold(0, |looked, lane| looked | set(*lane));
                state.leased = (state.leased & !looked) | leased;
                state.leased_asked = Some(Instant::now());
                state.book.set_heads(&lanes, heads);
            }
        }
        // An operator may have made due what is known to wait.
        let waiting = self.state().book.waiting_in(&lanes);
        if !waiting.is_empty() {
            self.fetch(session, waiting).await?;
        }
        let mut others: HashSet<u8> = self.state().book.lanes.iter().map(|(lane, _)| lane).collect();
        for lane in &lanes {
            others.remove(lane);
        }
        Box::pin(self.read(limit.min(1), &mut others, Some(changed))).await?;
        Ok(())
    }

    /// Reads entries by seq: late ones, or known ones whose payload was left out.
    pub(super) async fn fetch(&self, session: SessionId, mut seqs: Vec<i64>) -> Result<()> {
        seqs.sort_unstable();
        seqs.dedup();
        let most = usize::try_from(BATCH_MAX).unwrap_or(usize::MAX);
        for seqs in seqs.chunks(most) {
            let at = Instant::now();
            let request = FetchRequest { route: self.route.clone(), session, seqs: seqs.to_vec() };
            let Fetched { lost, entries, undecodable, now } = self.lanes.fetch(request).await?;
            let mut state = self.state();
            state.heard = Some((now, at));
            state.lose_if(lost, session);
            if state.session != session || lost {
                break;
            }
            let found = entries.iter().map(|entry| entry.seq);
            let found: HashSet<i64> = found.chain(undecodable.iter().map(|row| row.row.held.seq)).collect();
            state.book.forget_missing(seqs, &found);
            for entry in entries {
                state.book.add(entry, now, at);
            }
            for row in undecodable {
                state.book.add_undecodable(row, at);
            }
        }
        Ok(())
    }
}

impl State {
    /// Lanes in which relays by rows had something in flight are looked at from their beginning, now and then: it may be
    /// settled, or back.
    fn doubt_leased(&mut self) {
        let is_due = self.leased_asked.is_none_or(|asked| asked.elapsed() >= LEASED_INTERVAL);
        if self.leased != 0 && is_due {
            (0..LANES).filter(|lane| self.leased & set(*lane) != 0).for_each(|lane| self.book.doubt(lane));
        }
    }

    /// Whether so many entries can be handed out as things are.
    pub(super) fn can_hand_out(&mut self, limit: usize) -> bool {
        self.has_enough(limit) && self.book.missing(limit).is_empty()
    }

    /// Whether a claim of so many entries is filled by what can go now, or will be by what can go next.
    fn has_enough(&mut self, limit: usize) -> bool {
        let ready = self.book.ready(Instant::now(), limit);
        let lacking = limit.saturating_sub(ready);
        let fresh = self.heard.is_some_and(|(_, asked)| asked.elapsed() < FOLLOWING_MAX);
        !self.unplaced && (lacking == 0 || (fresh && self.book.following(lacking) >= lacking))
    }

    /// Whether to ask who is writing: it is time, much was read, or there is something that need not be looked at as long
    /// as that is known.
    fn asks_who_is_writing(&mut self) -> bool {
        let asks = self.horizon.rests()
            || self.read_since >= WRITERS_ENTRIES
            || self.writers_asked.is_none_or(|asked| asked.elapsed() >= WRITERS_INTERVAL);
        if asks {
            self.writers_asked = Some(Instant::now());
            self.read_since = 0;
        }
        asks
    }

    /// Most entries of one read: some times what is wanted, but not more than fits by what was seen so far.
    fn read_at_once(&self, limit: usize, bytes_max: usize) -> usize {
        let fits = bytes_max / self.payload_bytes_mean.max(1);
        limit.saturating_mul(READ_AHEAD).min(fits).min(usize::try_from(BATCH_MAX).unwrap_or(usize::MAX))
    }

    /// Where to read on, and how much.
    fn positions(
        &self,
        limit: usize,
        bytes_max: usize,
        exhausted: &HashSet<u8>,
        anew: bool,
    ) -> Vec<LanePosition> {
        let wanted = |(number, lane): &(u8, &Lane)| !lane.leaving && !exhausted.contains(number);
        let mut lanes: Vec<(u8, &Lane)> = self.book.lanes.iter().filter(wanted).collect();
        let most = self.read_at_once(limit, bytes_max);
        // A lane that gives less than it was asked for has nothing more, and is not asked again.
        let least = (most / lanes.len().max(1)).clamp(1, CHUNK_LEAST);
        let size = |lane: &Lane| usize::try_from(lane.chunk).unwrap_or(usize::MAX).max(least);
        let sum: usize = lanes.iter().map(|(_, lane)| size(lane)).sum();
        // However little is read of a lane, the server goes through a page of its index. So it is rather much of a few
        // lanes in turn, unless only one entry of a key can go at a time: then it takes many keys to fill a claim.
        // And unless so little is wanted that it would be a lane at a time, whether there is something in it or not.
        // It is the turn of those that are the furthest behind: what was staged first goes first, and what is changed at
        // the same time lies close together.
        let in_turn = sum > most && most >= lanes.len() && self.book.hands_out_prefixes() && !anew;
        if in_turn {
            lanes.sort_by_key(|(_, lane)| lane.cursor);
        }
        let share = |lane: &Lane| match size(lane) {
            size if in_turn => size.min(most / LANES_PER_TURN).max(1),
            size if sum > most => (size * most / sum).max(1),
            size => size,
        };
        let mut taken = 0;
        let mut positions = Vec::with_capacity(lanes.len());
        for (number, lane) in lanes {
            if in_turn && taken >= most {
                break;
            }
            taken += share(lane);
            positions.push(LanePosition {
                lane: number,
                floor: if anew { 0 } else { self.horizon.look_from(number, lane.floor) },
                cursor: lane.cursor,
                limit: if anew { 0 } else { u32::try_from(share(lane)).unwrap_or(1) },
            });
        }
        positions
    }

    /// What earlier reads said about these lanes.
    fn seen(&self, positions: &[LanePosition]) -> Seen {
        let lane =
            |position: &LanePosition| Some((position.lane, self.book.lanes.get(position.lane)?.revision?));
        Seen { drawn: self.horizon.drawn(), revisions: positions.iter().filter_map(lane).collect() }
    }

    /// Lanes that are read for the first time, or that an operator has changed since the last read, with their
    /// revision.
    fn changed(&self, read: &LaneRead) -> Vec<(u8, i64)> {
        let is_new = |number: &u8, revision: &i64| {
            self.book.lanes.get(*number).is_some_and(|lane| lane.revision != Some(*revision))
        };
        read.revisions.iter().filter(|(number, revision)| is_new(number, revision)).copied().collect()
    }

    /// Takes over what was read.
    fn took(&mut self, read: LaneRead, positions: &[LanePosition], exhausted: &mut HashSet<u8>, at: Instant) {
        let mut got = [0_u32; 64];
        let mut top = [i64::MIN; 64];
        let mut count = |lane: Option<u8>, seq: i64| {
            let lane = usize::from(lane.unwrap_or(0) % 64);
            got[lane] += 1;
            top[lane] = top[lane].max(seq);
        };
        read.entries.iter().for_each(|entry| count(entry.lane, entry.seq));
        read.undecodable.iter().for_each(|row| count(Some(row.lane), row.row.held.seq));
        self.read_since += read.entries.len();
        let bytes: usize = read.entries.iter().map(|entry| entry.payload.len()).sum();
        if !read.entries.is_empty() {
            self.payload_bytes_mean = (bytes / read.entries.len()).max(1);
        }
        for position in positions.iter().filter(|position| position.limit > 0) {
            let index = usize::from(position.lane % 64);
            let all = got[index] < position.limit;
            if let Some(lane) = self.book.lanes.get_mut(position.lane) {
                let decided = if all { self.horizon.decided() } else { i64::MIN };
                lane.cursor = lane.cursor.max(top[index]).max(decided);
                lane.read(position.limit, got[index]);
            }
            if all {
                exhausted.insert(position.lane);
            }
        }
        self.book.take_in(read.entries, read.now, at);
        if !read.undecodable.is_empty() {
            self.book.place_all();
        }
        for row in read.undecodable {
            self.book.add_undecodable(row, at);
        }
    }

    /// A read is over; with `writers`, it has asked who is writing.
    fn read_ended(&mut self, positions: &[LanePosition], drawn: i64, writers: Option<&[u64]>) {
        for position in positions {
            let lane = self.book.lanes.get_mut(position.lane);
            // What is between the floor and where this read began was seen by an earlier one.
            if let Some(lane) = lane.filter(|lane| lane.floor == position.cursor) {
                lane.floor = self.horizon.undecided_from(lane.floor, lane.cursor);
            }
        }
        self.horizon.heard(drawn, writers);
        // What is being handed over is not read any more.
        let lanes = || self.book.lanes.iter().filter(|(_, lane)| !lane.leaving);
        let held = lanes().fold(0, |held, (number, _)| held | set(number));
        self.horizon.end(lanes_of(positions), held);
        if let Some(writers) = writers {
            let lanes = self.book.lanes.iter_mut().filter(|(_, lane)| !lane.leaving);
            self.horizon.note(lanes, writers);
        }
    }
}

/// Drops what was read of lanes that were given up while they were read: whoever had them in between may have delivered
/// it, and where they are read on is not where this read ended.
fn forget_replaced(
    lanes: &LaneMap,
    fences: &[Option<Fence>; LANES as usize],
    read: &mut LaneRead,
    positions: &mut Vec<LanePosition>,
) {
    let is_same = |position: &LanePosition, lane: &Lane| {
        lane.cursor == position.cursor && Some(lane.fence) == fences[usize::from(position.lane % LANES)]
    };
    let replaced = positions
        .iter()
        .filter(|position| !lanes.get(position.lane).is_some_and(|lane| is_same(position, lane)))
        .fold(0, |replaced, position| replaced | set(position.lane));
    if replaced != 0 {
        positions.retain(|position| set(position.lane) & replaced == 0);
        read.entries.retain(|entry| entry.lane.is_some_and(|lane| set(lane) & replaced == 0));
        read.undecodable.retain(|row| set(row.lane) & replaced == 0);
        read.revisions.retain(|(lane, _)| set(*lane) & replaced == 0);
    }
}

fn lanes_of(positions: &[LanePosition]) -> Set {
    positions.iter().fold(0, |lanes, position| lanes | set(position.lane))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_of_a_lane_that_was_given_up_meanwhile_is_dropped() {
        let mut lanes = LaneMap::default();
        let mut fences = [None; LANES as usize];
        let mut positions = Vec::new();
        for number in 0..4 {
            lanes.insert(number, Lane { cursor: 7, ..Lane::new(Fence(1)) });
            fences[usize::from(number)] = Some(Fence(1));
            positions.push(LanePosition { lane: number, floor: 0, cursor: 7, limit: 10 });
        }
        // One was regained under another fence, one begins anew under the same, one is gone.
        lanes.insert(1, Lane { cursor: 7, ..Lane::new(Fence(2)) });
        lanes.insert(2, Lane::new(Fence(1)));
        lanes.remove(3);
        let mut read = LaneRead::nothing(pillarbox_core::Timestamp::MIN);
        read.revisions = vec![(0, 5), (1, 5), (2, 5), (3, 5)];
        forget_replaced(&lanes, &fences, &mut read, &mut positions);
        assert_eq!(read.revisions, [(0, 5)]);
        assert_eq!(lanes_of(&positions), set(0));
    }
}
