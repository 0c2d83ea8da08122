//! Handing out entries that came back from an expired lease, in small company.
//!
//! A lane is held as a whole, and the burial of a dead session counts everything that it had read as in
//! flight. That is too much if an entry is to be alone. So the session records beforehand which entries are
//! in flight, and only these count.

use pillarbox_core::port::{Claim, ClaimRequest, Company, IsolateRequest, SessionId};
use pillarbox_core::{Result, Retry, company};
use tokio::time::Instant;

use super::{LaneReader, State};

impl LaneReader {
    /// Hands out the least accused suspects, as many as may be together with what is in flight.
    pub(super) async fn claim_suspects(&self, request: &ClaimRequest, beside: u32) -> Result<Claim> {
        let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
        let _reading = self.reading.lock().await;
        let (session, missing) = {
            let mut state = self.state();
            state.book.place_all();
            (state.session, state.book.suspects_without_payload(limit))
        };
        if !missing.is_empty() {
            self.fetch(session, missing).await?;
        }
        let picked = {
            let mut state = self.state();
            match state.pick(limit, beside) {
                Picked::None => return Ok(Claim::default()),
                Picked::Wait(company) => return Ok(Claim { suspects: Some(company), ..Claim::default() }),
                Picked::Some(seqs) => {
                    // If the answer is lost it may still have taken effect.
                    state.isolated = true;
                    seqs
                }
            }
        };
        let only = Some(self.state().book.with_handed(&picked));
        let known = self.isolate(session, only).await?;
        let at = Instant::now();
        let mut state = self.state();
        state.lose_if(!known, session);
        if !known || state.session != session || state.unplaced {
            return Ok(Claim::default());
        }
        let lease_end = state.store_time(at).saturating_add(request.lease);
        let entries = state.book.hand_out_suspects(&picked, &self.owner, lease_end, at);
        Ok(Claim { entries, ..Claim::default() })
    }

    /// From here on whatever was read may be in flight again.
    pub(super) async fn end_isolation(&self) -> Result<()> {
        let session = {
            let mut state = self.state();
            if !state.isolated || state.book.ready(Instant::now(), 1) == 0 {
                return Ok(());
            }
            state.session
        };
        let known = self.isolate(session, None).await?;
        let mut state = self.state();
        state.lose_if(!known, session);
        if state.session == session {
            state.isolated = false;
        }
        Ok(())
    }

    /// Tells the store what is in flight.
    async fn isolate(&self, session: SessionId, only: Option<Vec<i64>>) -> Result<bool> {
        self.state().unanswered = true;
        // A caller that gives up waiting drops this call here, and does not know whether it took effect.
        let answer = self.lanes.isolate(IsolateRequest { route: self.route.clone(), session, only }).await;
        let mut state = self.state();
        if state.session == session {
            state.unanswered = matches!(&answer, Err(error) if error.retry() == Retry::Unknown);
        }
        answer
    }

    /// Ends a session whose last word to the store must stand. Either it was not answered: carried out late, it would take
    /// the place of a newer one, and a crash would be held against other entries than those in flight. Or the relay has
    /// given up a suspect without a recorded verdict: the attempt counts when the session is buried, by that word. The
    /// relay claims nothing beside a suspect, so one that is still out when it claims was given up. What else is in flight
    /// is settled first, and nothing is handed out beside it.
    pub(super) async fn leave_if_it_must(&self, company: Company) -> Result<Option<Claim>> {
        let in_flight = {
            let state = self.state();
            if !state.unanswered && !state.book.has_handed_suspects() {
                return Ok(None);
            }
            state.book.in_flight()
        };
        // If the relay has nothing and the book has, that was given up. The lease ends what is left of the session.
        if in_flight == 0 || company == (Company::Suspects { beside: 0 }) {
            let _reading = self.reading.lock().await;
            let _turn = self.turn.lock().await;
            self.end_session().await?;
            return Ok(None);
        }
        Ok(Some(Claim { suspects: Some(1), ..Claim::default() }))
    }
}

/// What a claim of suspects finds.
enum Picked {
    None,
    /// They may be in flight with this many entries at most, and more are in flight.
    Wait(u32),
    Some(Vec<i64>),
}

impl State {
    fn pick(&self, limit: usize, beside: u32) -> Picked {
        let Some(crashes) = self.book.least_accused().filter(|_| !self.unplaced) else { return Picked::None };
        let company = company(crashes);
        let room = usize::try_from(company.saturating_sub(beside)).unwrap_or(usize::MAX).min(limit);
        if room == 0 {
            return Picked::Wait(company);
        }
        let seqs = self.book.suspects_of(crashes, room);
        // One whose payload did not come is gone, or is fetched by the next claim.
        if seqs.is_empty() { Picked::None } else { Picked::Some(seqs) }
    }
}
