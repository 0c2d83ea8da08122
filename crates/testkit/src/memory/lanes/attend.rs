//! Heartbeats: joining, renewing, sharing, and burying the sessions that gave none.

use std::collections::{BTreeMap, BTreeSet};

use pillarbox_core::port::{
    AttendRequest, Attendance, Death, Effect, LANES, LaneHeld, ReapRequest, Reaped, SessionId,
};
use pillarbox_core::{Action, Entry, Failure, Fence, Result, RouteName, Status, Timestamp, attempts_counted};

use super::{LaneTable, Session, is_due, is_unsettled, lane_of_entry, lease_expired};
use crate::memory::mutant::Mutant;
use crate::memory::state::State;

impl State {
    pub(super) fn attend(&mut self, request: &AttendRequest, now: Timestamp) -> Result<Attendance> {
        let me = request.session;
        let known = self.lanes.get(&request.route).is_some_and(|table| table.sessions.contains_key(&me));
        if !known && !request.joins {
            return Ok(Attendance { lost: true, ..Attendance::default() });
        }
        // A session that is late and not buried yet is alive: its heartbeat comes first.
        let mut expired = self.expired(&request.route, now);
        expired.retain(|session| *session != me);
        let deaths = self.bury_sessions(&expired, &Burial::of(request), now)?;
        let next: fn(Fence, Timestamp) -> Fence =
            if self.is(Mutant::FenceRestarts) { |_, _| Fence(1) } else { Fence::next };
        let surplus_told = !self.is(Mutant::SurplusIsNotTold);
        let agreed = !self.is(Mutant::SharesAreNotAgreed);
        let paused = self.paused.contains_key(&request.route) && !self.is(Mutant::PausedLanesAreKept);
        let table = self.lanes.entry(request.route.clone()).or_default();
        table.renew(request, now);
        // A paused route has no reader: a session that holds lanes of it must give them up.
        let shares = match paused {
            true => 0,
            false if agreed => table.shares(),
            false => request.shares,
        };
        let mut attendance = table.share(me, shares, |fence| next(fence, now));
        if !surplus_told {
            attendance.surplus.clear();
        }
        attendance.buried = u32::try_from(expired.len()).unwrap_or(u32::MAX);
        attendance.deaths = deaths;
        Ok(attendance)
    }

    /// The entries that sessions of lanes left, for a relay that reads the routes by rows.
    pub(in crate::memory) fn reap_sessions(
        &mut self,
        request: &ReapRequest,
        now: Timestamp,
    ) -> Result<Reaped> {
        let mut reaped = Reaped::default();
        let routes: Vec<RouteName> = self.lanes.keys().cloned().collect();
        for route in routes.iter().filter(|name| request.route.as_ref().is_none_or(|route| route == *name)) {
            let expired = self.expired(route, now);
            reaped.stale += u64::try_from(expired.len()).unwrap_or(u64::MAX);
            if request.effect == Effect::Apply {
                let max_attempts = request.max_attempts.unwrap_or(u32::MAX);
                let burial = Burial { route, owner: &request.owner, max_attempts, dead_block: false };
                reaped.dead.extend(self.bury_sessions(&expired, &burial, now)?);
            }
            let sessions = self.lanes.get(route).map_or(0, |table| table.sessions.len());
            reaped.lane_sessions += u32::try_from(sessions).unwrap_or(u32::MAX);
        }
        Ok(reaped)
    }

    /// Sessions whose lease is over.
    fn expired(&self, route: &RouteName, now: Timestamp) -> Vec<SessionId> {
        let sessions = self.lanes.get(route).into_iter().flat_map(|table| &table.sessions);
        sessions.filter(|(_, known)| known.is_over(now)).map(|(session, _)| *session).collect()
    }

    /// Counts what they may have had in flight, and frees their lanes.
    fn bury_sessions(
        &mut self,
        expired: &[SessionId],
        burial: &Burial<'_>,
        now: Timestamp,
    ) -> Result<Vec<Death>> {
        let in_flight: Vec<Entry> = expired
            .iter()
            .flat_map(|session| self.in_flight_of(burial.route, *session, now, burial.dead_block))
            .collect();
        let convicts = self.is(Mutant::CrashConvicts);
        self.check_audit(in_flight.iter().any(|entry| burial.is_last(entry, convicts)))?;
        let deaths = in_flight.into_iter().filter_map(|entry| self.take_over(&entry, burial, now)).collect();
        if let Some(table) = self.lanes.get_mut(burial.route) {
            for session in expired {
                table.free(*session, &table.of(*session));
                table.sessions.remove(session);
            }
        }
        Ok(deaths)
    }

    /// What a session may have been delivering: read, unsettled, due, and not behind an entry of its key that
    /// waits for its time, or is dead where the dead block. If it has said what it has, only that; otherwise no suspect
    /// and nothing behind one.
    pub(super) fn in_flight_of(
        &self,
        route: &RouteName,
        session: SessionId,
        now: Timestamp,
        dead_block: bool,
    ) -> Vec<Entry> {
        let Some(table) = self.lanes.get(route) else { return vec![] };
        let Some(known) = table.sessions.get(&session) else { return vec![] };
        let everything = self.is(Mutant::TakeOverCountsEverything);
        let handed = if everything { i64::MAX } else { known.handed };
        let lanes = table.of(session);
        let mut held_back: BTreeSet<&str> = BTreeSet::new();
        let mut in_flight = vec![];
        for entry in self.rows.range(..=handed).map(|(_, row)| &row.entry) {
            let dead = entry.status == Status::Dead;
            let read = is_unsettled(entry) || dead;
            if entry.route != *route || !read || !lanes.contains(&lane_of_entry(entry)) {
                continue;
            }
            let suspect = entry.is_suspect() && !self.is(Mutant::TakeOverCountsSuspects);
            let unsaid = known.only.is_none() && suspect;
            let waits = if dead { dead_block } else { unsaid || !is_due(entry, now) };
            if waits && !everything {
                held_back.extend(entry.key.as_deref());
            } else if !dead
                && (everything || known.may_have(entry.seq))
                && entry.key.as_deref().is_none_or(|key| !held_back.contains(key))
            {
                in_flight.push(entry.clone());
            }
        }
        in_flight
    }

    /// Counts the attempt that a dead session may have made. Nobody knows what came of it.
    fn take_over(&mut self, entry: &Entry, burial: &Burial<'_>, now: Timestamp) -> Option<Death> {
        if self.is(Mutant::TakeOverIsNotCounted) {
            return None;
        }
        let failure = lease_expired();
        self.spend_unknown(entry.seq, failure.clone(), now);
        if !burial.is_last(entry, self.is(Mutant::CrashConvicts)) {
            return None;
        }
        self.bury(entry.seq, burial.owner, failure.clone(), now);
        Some(Death {
            event_id: entry.event_id,
            route: entry.route.clone(),
            event_type: entry.event_type.clone(),
            attempts: entry.attempts + 1,
            failure,
        })
    }

    /// One attempt more whose outcome is not known; due at once.
    pub(super) fn spend_unknown(&mut self, seq: i64, failure: Failure, now: Timestamp) {
        let Some(row) = self.rows.get_mut(&seq) else { return };
        row.step(Action::Claim);
        row.step(Action::Reap);
        row.entry.attempts += 1;
        row.entry.crashes += 1;
        row.entry.due_at = None;
        row.entry.last_error = Some(failure);
        row.entry.last_attempt_at = Some(now);
    }
}

/// The burial of sessions of a route: for whom, and by which rules.
struct Burial<'a> {
    route: &'a RouteName,
    owner: &'a str,
    max_attempts: u32,
    /// Whether what is behind a dead entry of its key was not handed out.
    dead_block: bool,
}

impl<'a> Burial<'a> {
    fn of(request: &'a AttendRequest) -> Self {
        let (route, owner) = (&request.route, request.owner.as_str());
        Self { route, owner, max_attempts: request.max_attempts, dead_block: !request.skips_dead }
    }

    /// Whether the attempt that was in flight was the last one allowed.
    fn is_last(&self, entry: &Entry, convicts: bool) -> bool {
        let crashes = if convicts { 0 } else { entry.crashes + 1 };
        let counted = attempts_counted(entry.attempts + 1, crashes);
        counted >= entry.max_attempts.unwrap_or(self.max_attempts)
    }
}

impl LaneTable {
    fn renew(&mut self, request: &AttendRequest, now: Timestamp) {
        let lease_until = now.saturating_add(request.lease);
        let rank = self.joined + 1;
        let shares = request.shares;
        let new = || Session {
            rank,
            owner: request.owner.clone(),
            leased_at: now,
            lease_until,
            shares,
            handed: 0,
            only: None,
        };
        let session = self.sessions.entry(request.session).or_insert_with(new);
        session.owner.clone_from(&request.owner);
        (session.leased_at, session.lease_until, session.shares) = (now, lease_until, shares);
        self.joined = rank;
    }

    /// The lowest that anybody says: the same for all.
    fn shares(&self) -> u8 {
        self.sessions.values().map(|session| session.shares).min().unwrap_or(1)
    }

    /// The oldest sessions share the lanes evenly, and the remainder goes to the oldest. Younger sessions
    /// wait.
    fn share_of(&self, session: SessionId, shares: u8) -> usize {
        if shares == 0 {
            return 0;
        }
        let sharing = self.sessions.len().min(usize::from(shares)).max(1);
        let ranks: BTreeMap<u64, SessionId> =
            self.sessions.iter().map(|(session, known)| (known.rank, *session)).collect();
        let place = ranks.values().position(|known| *known == session).unwrap_or(usize::MAX);
        let lanes = usize::from(LANES);
        if place >= sharing { 0 } else { lanes / sharing + usize::from(place < lanes % sharing) }
    }

    /// Takes free lanes up to the share, and tells which are beyond it.
    fn share(&mut self, me: SessionId, shares: u8, next: impl Fn(Fence) -> Fence) -> Attendance {
        let share = self.share_of(me, shares);
        let missing = share.saturating_sub(self.of(me).len());
        for lane in self.lanes.iter_mut().filter(|lane| lane.session.is_none()).take(missing) {
            lane.session = Some(me);
            lane.fence = next(lane.fence);
        }
        let held = self.of(me);
        let surplus = held.iter().skip(share).copied().collect();
        let lanes = held.iter().filter_map(|lane| {
            let fence = self.lane(*lane)?.fence;
            Some(LaneHeld { lane: *lane, fence })
        });
        Attendance { lanes: lanes.collect(), surplus, ..Attendance::default() }
    }
}
