//! Reading ahead: enough entries that can go now, with whatever must go before them.

use std::collections::HashSet;
use std::time::Duration;

use pillarbox_core::Result;
use pillarbox_core::limits::BATCH_MAX;
use pillarbox_core::port::{
    FetchRequest, Fetched, HeadKind, HeadsRequest, LANES, LaneCursor, LaneRead, LaneWish, PassedRequest,
    ReadRequest, SessionId,
};
use tokio::time::Instant;

use super::lane::{Lane, LaneMap, set};
use super::{LaneReader, State};

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
            self.read(limit, &mut HashSet::new()).await?;
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
            if !self.read(limit, &mut exhausted).await? {
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

    /// One read of every lane that may have more. `false`: there is none.
    async fn read(&self, limit: usize, exhausted: &mut HashSet<u8>) -> Result<bool> {
        let request = {
            let mut state = self.state();
            state.doubt_leased();
            let lanes = state.wishes(limit, self.options.bytes_max, exhausted);
            if lanes.iter().all(|wish| wish.limit == 0) {
                return Ok(false);
            }
            state.book.begin_read();
            let (route, session, cursor) = (self.route.clone(), state.session, state.cursor.clone());
            ReadRequest { route, session, lanes, cursor }
        };
        let (session, mut wishes, cursor) = (request.session, request.lanes.clone(), request.cursor.clone());
        let at = Instant::now();
        let mut read = self.lanes.read(request).await?;
        let (late, changed) = {
            let mut state = self.state();
            state.heard = Some((read.now, at));
            state.lose_if(read.lost, session);
            if state.session != session || read.lost {
                return Ok(false);
            }
            forget_replaced(&state.book.lanes, &mut read, &mut wishes);
            // What is known is what this read is compared with.
            state.book.place_all();
            // If one of the next calls fails, nothing goes before a later read has put everything in its place.
            state.unplaced = true;
            (state.book.late(&read.behind), state.changed(&read))
        };
        // Before anything of this read can be handed out, what must go before it is put in its place.
        if !changed.is_empty() {
            self.start_anew(session, &changed, cursor).await?;
        }
        if !late.is_empty() {
            self.fetch(session, late).await?;
        }
        let mut state = self.state();
        if state.session == session {
            // The calls in between took their time, too.
            forget_replaced(&state.book.lanes, &mut read, &mut wishes);
            state.took(read, &wishes, exhausted, at);
            state.unplaced = false;
        }
        Ok(true)
    }

    /// Looks at lanes from their beginning up to a cursor: they are new, or an operator has changed something in them.
    async fn start_anew(&self, session: SessionId, changed: &[(u8, i64)], cursor: LaneCursor) -> Result<()> {
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
        let mut wishes = self.state().all_lanes();
        wishes.retain(|wish| lanes.contains(&wish.lane));
        let (route, asked) = (self.route.clone(), wishes.clone());
        let passed = self.lanes.passed(PassedRequest { route, session, lanes: asked, cursor }).await?;
        let late = {
            let mut state = self.state();
            state.lose_if(passed.lost, session);
            if state.session != session || passed.lost {
                return Ok(());
            }
            state.book.place_all();
            state.book.late(&passed.seqs)
        };
        if !late.is_empty() {
            self.fetch(session, late).await?;
        }
        let mut state = self.state();
        if state.session == session {
            wishes.retain(|wish| is_current(&state.book.lanes, wish));
            // Changed once more since: what was found to be dead, and what was not, is not what it was before.
            let same = changed.iter().filter(|lane| passed.revisions.contains(lane));
            let same = same.filter(|(lane, _)| wishes.iter().any(|wish| wish.lane == *lane));
            same.for_each(|(lane, revision)| state.book.looked_at(*lane, *revision));
        }
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

    /// Whether this many entries can be handed out now.
    pub(super) fn can_hand_out(&mut self, limit: usize) -> bool {
        self.has_enough(limit) && self.book.missing(limit).is_empty()
    }

    /// Whether the entries that can go now or next fill a claim of this many entries.
    fn has_enough(&mut self, limit: usize) -> bool {
        let ready = self.book.ready(Instant::now(), limit);
        let lacking = limit.saturating_sub(ready);
        let fresh = self.heard.is_some_and(|(_, asked)| asked.elapsed() < FOLLOWING_MAX);
        !self.unplaced && (lacking == 0 || (fresh && self.book.following(lacking) >= lacking))
    }

    /// Most entries of one read: some times what is wanted, but not more than fits by what was seen so far.
    fn read_at_once(&self, limit: usize, bytes_max: usize) -> usize {
        let fits = bytes_max / self.payload_bytes_mean.max(1);
        limit.saturating_mul(READ_AHEAD).min(fits).min(usize::try_from(BATCH_MAX).unwrap_or(usize::MAX))
    }

    /// Every lane that is read, with nothing wanted of it.
    fn all_lanes(&self) -> Vec<LaneWish> {
        let lanes = self.book.lanes.iter().filter(|(_, lane)| !lane.leaving);
        lanes.map(|(number, lane)| LaneWish { lane: number, run: lane.run, limit: 0 }).collect()
    }

    /// How much to read of which lanes.
    fn wishes(&self, limit: usize, bytes_max: usize, exhausted: &HashSet<u8>) -> Vec<LaneWish> {
        let mut wishes = self.all_lanes();
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
        let in_turn = sum > most && most >= lanes.len() && self.book.hands_out_prefixes();
        if in_turn {
            lanes.sort_by_key(|(_, lane)| lane.read_to);
        }
        let share = |lane: &Lane| match size(lane) {
            size if in_turn => size.min(most / LANES_PER_TURN).max(1),
            size if sum > most => (size * most / sum).max(1),
            size => size,
        };
        let mut shares = [0_u32; LANES as usize];
        let mut taken = 0;
        for (number, lane) in lanes {
            if in_turn && taken >= most {
                break;
            }
            taken += share(lane);
            shares[usize::from(number % LANES)] = u32::try_from(share(lane)).unwrap_or(1);
        }
        wishes.iter_mut().for_each(|wish| wish.limit = shares[usize::from(wish.lane % LANES)]);
        wishes
    }

    /// Lanes that are read for the first time, or that an operator has changed since the last read, with their
    /// revision.
    fn changed(&self, read: &LaneRead) -> Vec<(u8, i64)> {
        let known = |number: u8| self.book.lanes.get(number);
        let is_new = |(number, revision): &(u8, i64)| {
            known(*number).is_some_and(|lane| lane.revision != Some(*revision))
        };
        read.lanes.iter().map(|seen| (seen.lane, seen.revision)).filter(is_new).collect()
    }

    /// Takes over what was read.
    fn took(&mut self, read: LaneRead, wishes: &[LaneWish], exhausted: &mut HashSet<u8>, at: Instant) {
        let mut got = [0_u32; LANES as usize];
        let entries = read.entries.iter().map(|entry| entry.lane.unwrap_or(0));
        let rows = read.undecodable.iter().map(|row| row.lane);
        entries.chain(rows).for_each(|lane| got[usize::from(lane % LANES)] += 1);
        let bytes: usize = read.entries.iter().map(|entry| entry.payload.len()).sum();
        if !read.entries.is_empty() {
            self.payload_bytes_mean = (bytes / read.entries.len()).max(1);
        }
        for wish in wishes.iter().filter(|wish| wish.limit > 0) {
            let got = got[usize::from(wish.lane % LANES)];
            if let Some(lane) = self.book.lanes.get_mut(wish.lane) {
                lane.read(wish.limit, got);
            }
            if got < wish.limit {
                exhausted.insert(wish.lane);
            }
        }
        for seen in &read.lanes {
            if let Some(lane) = self.book.lanes.get_mut(seen.lane) {
                lane.read_to = seen.read_to;
            }
        }
        self.cursor = read.cursor;
        self.book.take_in(read.entries, read.now, at);
        if !read.undecodable.is_empty() {
            self.book.place_all();
        }
        for row in read.undecodable {
            self.book.add_undecodable(row, at);
        }
    }
}

/// Whether a lane is still in the run that was asked for.
fn is_current(lanes: &LaneMap, wish: &LaneWish) -> bool {
    lanes.get(wish.lane).is_some_and(|lane| lane.run == wish.run)
}

/// Drops what was read of lanes that were given up while they were read: another session that had them in
/// between may have delivered it, and where they are read on is not where this read ended.
fn forget_replaced(lanes: &LaneMap, read: &mut LaneRead, wishes: &mut Vec<LaneWish>) {
    let replaced = wishes.iter().filter(|wish| !is_current(lanes, wish));
    let replaced = replaced.fold(0, |replaced, wish| replaced | set(wish.lane));
    if replaced != 0 {
        wishes.retain(|wish| set(wish.lane) & replaced == 0);
        read.entries.retain(|entry| entry.lane.is_some_and(|lane| set(lane) & replaced == 0));
        read.undecodable.retain(|row| set(row.lane) & replaced == 0);
        read.lanes.retain(|seen| set(seen.lane) & replaced == 0);
    }
}

#[cfg(test)]
mod tests {
    use pillarbox_core::port::LaneSeen;
    use pillarbox_core::{Fence, Timestamp};

    use super::*;

    #[test]
    fn what_was_read_of_a_lane_that_was_given_up_meanwhile_is_dropped() {
        let mut lanes = LaneMap::default();
        let mut wishes = Vec::new();
        let mut read = LaneRead::nothing(Timestamp::MIN);
        for lane in 0..4 {
            lanes.insert(lane, Lane::new(Fence(1), 1));
            wishes.push(LaneWish { lane, run: 1, limit: 10 });
            read.lanes.push(LaneSeen { lane, revision: 5, read_to: 0 });
        }
        // One was regained under another fence, one begins anew under the same, one is gone.
        lanes.insert(1, Lane::new(Fence(2), 2));
        lanes.insert(2, Lane::new(Fence(1), 2));
        lanes.remove(3);
        forget_replaced(&lanes, &mut read, &mut wishes);
        assert_eq!(read.lanes, [LaneSeen { lane: 0, revision: 5, read_to: 0 }]);
        assert_eq!(wishes, [LaneWish { lane: 0, run: 1, limit: 10 }]);
    }
}
