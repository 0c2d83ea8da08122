//! Reading by lanes: order per key, and nothing written before an entry is settled.
//!
//! A claim reads ahead and hands out what may go; a renewal and a reap are signs of life.

mod book;
mod chain;
mod lane;
mod reading;
mod suspects;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use pillarbox_core::port::{
    AttendRequest, Claim, ClaimRequest, Company, ExtendRequest, Extended, HandOverRequest, LaneCursor,
    LaneSettleRequest, LaneSettlement, Lanes, ReapRequest, Reaped, SessionId, Settled, Verdict,
};
use pillarbox_core::{Held, OnDead, Result, RouteName, Timestamp};
use tokio::time::Instant;

use crate::observe::Observe;
use crate::random;

use super::{Feed, Nature, Recorded, Recording};

use book::Book;
use lane::Set;

/// As many entries of one key in one batch as there are: a failure stops what follows.
pub(crate) const ALL_OF_A_KEY: usize = usize::MAX;

/// How a relay reads lanes.
#[derive(Clone, Debug)]
pub(crate) struct LaneOptions {
    pub(crate) lease: Duration,
    pub(crate) shares: u8,
    pub(crate) max_attempts: u32,
    pub(crate) on_dead: OnDead,
    /// How many entries of one key may follow each other in one batch.
    pub(crate) per_key: usize,
    pub(crate) bytes_max: usize,
}

/// The outbox of one relay, by lanes.
pub(crate) struct LaneReader {
    lanes: Arc<dyn Lanes>,
    route: RouteName,
    owner: String,
    options: LaneOptions,
    state: Mutex<State>,
    /// Signs of life and hand-overs go one after the other: an answer that was overtaken would be wrong by then.
    turn: tokio::sync::Mutex<()>,
    /// So do reads: the entries of one read are in their places before the answer to the next one is looked
    /// at.
    reading: tokio::sync::Mutex<()>,
}

struct State {
    session: SessionId,
    joined: bool,
    /// When the last heartbeat that was answered had been sent.
    attended: Option<Instant>,
    random: u64,
    book: Book,
    /// Where the next read begins.
    cursor: LaneCursor,
    payload_bytes_mean: usize,
    /// A read has come to no end yet, or to none at all: something that it found may not be in its place.
    unplaced: bool,
    /// The store's time as it last said it, and when that was asked for.
    heard: Option<(Timestamp, Instant)>,
    /// The store may have been told that only some entries are in flight.
    isolated: bool,
    /// The store was told what is in flight and has not answered: it may still carry that out, at any time.
    unanswered: bool,
    /// Lanes in which relays by rows have something in flight, and when that was last asked for.
    leased: Set,
    leased_asked: Option<Instant>,
}

impl LaneReader {
    pub(crate) fn new(
        lanes: Arc<dyn Lanes>,
        route: RouteName,
        owner: String,
        options: LaneOptions,
        seed: u64,
    ) -> Self {
        let mut random = seed_of(seed, &owner);
        let state = State {
            session: next_session(&mut random),
            joined: false,
            attended: None,
            random,
            book: Book::new(options.per_key, options.on_dead),
            cursor: LaneCursor::default(),
            payload_bytes_mean: 0,
            unplaced: false,
            heard: None,
            isolated: false,
            unanswered: false,
            leased: 0,
            leased_asked: None,
        };
        Self {
            lanes,
            route,
            owner,
            options,
            state: Mutex::new(state),
            turn: tokio::sync::Mutex::default(),
            reading: tokio::sync::Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lease is longer than the pipeline believes, by the longest time since the last heartbeat when
    /// entries are handed out, so that it never believes too much.
    fn sign_interval(&self) -> Duration {
        self.options.lease / 4
    }

    /// A heartbeat. Returns its results, and gives up the lanes that other sessions wait for.
    async fn attend(&self) -> Result<Reaped> {
        let _turn = self.turn.lock().await;
        let request = {
            let state = self.state();
            AttendRequest {
                route: self.route.clone(),
                session: state.session,
                joins: !state.joined,
                owner: self.owner.clone(),
                lease: self.options.lease + self.sign_interval(),
                shares: self.options.shares,
                max_attempts: self.options.max_attempts,
                skips_dead: self.options.on_dead == OnDead::Skip,
                now: None,
            }
        };
        let (session, sent) = (request.session, Instant::now());
        let attendance = self.lanes.attend(request).await?;
        {
            let mut state = self.state();
            if state.session != session {
                return Ok(Reaped::default());
            }
            if attendance.lost {
                tracing::warn!(
                    route = %self.route,
                    "this relay did not renew its lanes in time, so other relays own them now; it joins \
                     again. If this repeats, raise `lease`"
                );
                state.lose();
            } else {
                state.joined = true;
                state.attended = Some(sent);
                state.book.attend(&attendance);
            }
        }
        self.hand_over_leavable().await?;
        Ok(Reaped { stale: u64::from(attendance.buried), dead: attendance.deaths, ..Reaped::default() })
    }

    async fn attend_if_due(&self) -> Result<()> {
        let due = self.state().attended.is_none_or(|at| at.elapsed() >= self.sign_interval());
        if due {
            let _ = self.attend().await?;
        }
        Ok(())
    }

    /// Gives up lanes beyond the share, once nothing of them is in flight.
    async fn hand_over(&self) -> Result<()> {
        if self.state().book.leavable().is_empty() {
            return Ok(());
        }
        let _turn = self.turn.lock().await;
        self.hand_over_leavable().await
    }

    async fn hand_over_leavable(&self) -> Result<()> {
        let (session, lanes) = {
            let state = self.state();
            (state.session, state.book.leavable())
        };
        if lanes.is_empty() {
            return Ok(());
        }
        // They are not read any more, so nothing of them can be handed out meanwhile.
        let request = HandOverRequest { route: self.route.clone(), session, lanes: Some(lanes.clone()) };
        self.lanes.hand_over(request).await?;
        let mut state = self.state();
        if state.session == session {
            state.book.left(&lanes);
        }
        Ok(())
    }

    /// Ends the session. What is still in flight is left to the lease: it may have been delivered.
    async fn end_session(&self) -> Result<()> {
        let session = {
            let mut state = self.state();
            let clean = state.joined && state.book.in_flight() == 0;
            let session = state.session;
            state.lose();
            clean.then_some(session)
        };
        match session {
            Some(session) => {
                let request = HandOverRequest { route: self.route.clone(), session, lanes: None };
                self.lanes.hand_over(request).await
            }
            None => Ok(()),
        }
    }
}

impl State {
    /// Begins anew under another name.
    fn lose(&mut self) {
        self.session = next_session(&mut self.random);
        self.joined = false;
        self.attended = None;
        self.book.lost();
        self.cursor = LaneCursor::default();
        self.unplaced = false;
        self.isolated = false;
        self.unanswered = false;
        self.leased = 0;
    }

    /// The store's time at some moment, as far as it is known.
    fn store_time(&self, at: Instant) -> Timestamp {
        self.heard.map_or(Timestamp::MIN, |(time, asked)| time.saturating_add(at.duration_since(asked)))
    }

    fn lose_if(&mut self, lost: bool, session: SessionId) {
        if lost && self.session == session {
            self.lose();
        }
    }
}

#[async_trait]
impl Feed for LaneReader {
    fn nature(&self) -> Nature {
        Nature { ordered: true, follows_confirmed: self.options.per_key != ALL_OF_A_KEY, ..Nature::ROWS }
    }

    fn tell(&self, observer: &dyn Observe) {
        let held = self.state().book.lanes.iter().count();
        observer.lanes(held);
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Claim> {
        request.check()?;
        if let Some(claim) = self.leave_if_it_must(request.company).await? {
            return Ok(claim);
        }
        self.attend_if_due().await?;
        self.hand_over().await?;
        if let Company::Suspects { beside } = request.company {
            return self.claim_suspects(&request, beside).await;
        }
        let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
        if !self.state().can_hand_out(limit) {
            let _reading = self.reading.lock().await;
            self.read_ahead(limit).await?;
        }
        self.end_isolation().await?;
        let at = Instant::now();
        let mut state = self.state();
        if state.unplaced || state.isolated {
            return Ok(Claim { suspects: state.book.suspects_waiting(), ..Claim::default() });
        }
        let lease_end = state.store_time(at).saturating_add(request.lease);
        let undecodable = state.book.take_undecodable(limit, at);
        let entries = state.book.hand_out(limit - undecodable.len(), &self.owner, lease_end, at);
        Ok(Claim { entries, undecodable, suspects: state.book.suspects_waiting() })
    }

    async fn extend(&self, request: ExtendRequest) -> Result<Extended> {
        let _ = self.attend().await?;
        let state = self.state();
        let lost = |held: &Held| state.book.handed(*held).is_none();
        Ok(Extended { fenced: request.held.into_iter().filter(lost).collect() })
    }

    async fn prepare(&self, limit: usize) -> Result<()> {
        self.read_on(limit).await
    }

    fn is_worth_preparing(&self, lacking: usize) -> bool {
        self.state().book.following(lacking) >= lacking
    }

    fn confirmed(&self, held: &[Held]) {
        let at = Instant::now();
        let mut state = self.state();
        held.iter().for_each(|held| state.book.confirmed(*held, at));
    }

    fn has_followers(&self, enough: usize) -> bool {
        self.state().book.ready(Instant::now(), enough) >= enough
    }

    async fn settle(&self, recording: Recording) -> Result<Recorded> {
        let Recording { owner, conclusions, keep } = recording;
        let (session, settlements, mut fenced) = {
            let state = self.state();
            let mut settlements = Vec::with_capacity(conclusions.len());
            let mut fenced = Vec::new();
            for conclusion in conclusions {
                match state.book.handed(conclusion.held) {
                    Some(handed) => settlements.push(LaneSettlement {
                        held: conclusion.held,
                        lane: handed.lane,
                        hint: handed.hint,
                        attempts: handed.attempts,
                        verdict: by_lanes(conclusion.verdict),
                    }),
                    None => fenced.push(conclusion.held),
                }
            }
            (state.session, settlements, fenced)
        };
        // A release has nothing to record but its cause.
        let (released, recorded): (Vec<_>, Vec<_>) =
            settlements.into_iter().partition(|settlement| settlement.verdict == Verdict::release(None));
        let mut settled = Settled::default();
        if !recorded.is_empty() {
            let request = LaneSettleRequest {
                route: self.route.clone(),
                session,
                owner,
                settlements: recorded.clone(),
                keep,
                now: None,
            };
            settled = self.lanes.settle(request).await?;
        }
        let mut state = self.state();
        if state.session == session {
            // All fenced: another session has the lanes. The next heartbeat confirms that.
            let lost = !recorded.is_empty() && settled.fenced.len() == recorded.len();
            if lost {
                state.attended = None;
            }
            // One that is fenced alone was settled by an earlier try whose answer was lost.
            let at = Instant::now();
            for settlement in recorded.iter().chain(&released) {
                state.book.settled(settlement.held.seq, &settlement.verdict, at);
            }
        }
        for held in &fenced {
            state.book.drop_claim(*held);
        }
        fenced.extend(settled.fenced);
        Ok(Recorded { fenced, left: None })
    }

    async fn reap(&self, request: ReapRequest, at_work: Vec<Held>) -> Result<Reaped> {
        {
            // What was given up without a verdict is put back below, and only the pipeline knows what was not.
            let at = Instant::now();
            let mut state = self.state();
            at_work.into_iter().for_each(|held| state.book.seen(held, at));
        }
        // What relays by rows have left: the route may have been theirs before.
        let rows = self.lanes.reap_rows(request).await?;
        let mut reaped = self.attend().await?;
        reaped.stale += rows.stale;
        reaped.released += rows.released;
        reaped.dead.extend(rows.dead);
        let since = Instant::now().checked_sub(self.options.lease * 2);
        let put_back = since.map_or(0, |since| self.state().book.put_back_abandoned(since));
        if put_back > 0 {
            tracing::warn!(
                route = %self.route,
                "{put_back} entries were given up without a verdict; they are delivered again and may arrive twice"
            );
        }
        Ok(reaped)
    }

    async fn sagas_left_alone(&self, route: &RouteName) -> Result<u64> {
        self.lanes.open_sagas(route).await
    }

    async fn leave(&self) -> Result<()> {
        self.end_session().await
    }
}

/// A lane writes nothing when it hands out, so it has no budget to give back: a park is a retry.
fn by_lanes(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Park { after, failure, .. } => Verdict::retry(after, failure),
        verdict => verdict,
    }
}

/// A name that no other session has: out of the relay's seed, which is random unless it was set, and its
/// owner, so that two relays with one seed do not take each other for themselves.
fn next_session(random: &mut u64) -> SessionId {
    SessionId::of_random(random::next(random), random::next(random))
}

/// Where the names of sessions begin.
fn seed_of(seed: u64, owner: &str) -> u64 {
    owner.bytes().fold(seed, |state, byte| (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_relays_of_one_seed_have_sessions_of_their_own() {
        let first = |owner| next_session(&mut seed_of(7, owner));
        assert_eq!(first("a"), first("a"), "the same seed gives the same run");
        assert_ne!(first("a"), first("b"));
    }
}
