//! Taking due entries under a lease, and keeping them for longer.

use pillarbox_core::port::{Claim, ClaimRequest, Company, ExtendRequest, Extended, Steps, Undecodable};
use pillarbox_core::{Action, Entry, Failure, FailureKind, Fence, Held, Status, Timestamp, company};

use super::mutant::Mutant;
use super::state::{Row, State};

impl State {
    /// Two arms, as in the databases: what became due, at most half of the limit, and what was due at once.
    /// So a heap of retries never starves fresh entries.
    pub(crate) fn claim(&mut self, request: &ClaimRequest, now: Timestamp) -> Claim {
        if self.is_read_by_lanes(&request.route) && !self.is(Mutant::RowsIgnoreLanes) {
            return Claim::default();
        }
        if let Company::Suspects { beside } = request.company {
            return self.claim_suspects(request, beside, now);
        }
        let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
        let open = || self.claimable(request, now).filter(|entry| !self.goes_in_small_company(entry));
        let mut due: Vec<_> = open().filter(|entry| entry.due_at.is_some()).collect();
        due.sort_by_key(|entry| (entry.due_at, entry.seq));
        due.truncate(limit.div_ceil(2));
        let mut ready: Vec<_> = open().filter(|entry| entry.due_at.is_none()).collect();
        request.order.sort(&mut ready);
        ready.truncate(limit - due.len());

        let mut taken = due;
        taken.append(&mut ready);
        request.order.sort(&mut taken);
        let seqs: Vec<i64> = taken.iter().map(|entry| entry.seq).collect();

        let mut claim = Claim::default();
        for seq in seqs {
            self.take(seq, request, now, &mut claim);
        }
        claim
    }

    /// The least accused of those that came back from an expired lease, and as many as may be together.
    fn claim_suspects(&mut self, request: &ClaimRequest, beside: u32, now: Timestamp) -> Claim {
        let mut suspects: Vec<_> = self
            .claimable(request, now)
            .filter(|entry| self.goes_in_small_company(entry))
            .map(|entry| (entry.crashes, entry.priority, entry.seq))
            .collect();
        suspects.sort_unstable();
        let Some((crashes, ..)) = suspects.first().copied() else { return Claim::default() };
        let room = company(crashes).saturating_sub(beside).min(request.limit);
        if room == 0 {
            return Claim { suspects: Some(company(crashes)), ..Claim::default() };
        }
        let mut claim = Claim::default();
        let equals = suspects.into_iter().filter(|suspect| suspect.0 == crashes);
        for (.., seq) in equals.take(usize::try_from(room).unwrap_or(usize::MAX)) {
            self.take(seq, request, now, &mut claim);
        }
        claim
    }

    fn goes_in_small_company(&self, entry: &Entry) -> bool {
        entry.is_suspect() && !self.is(Mutant::SuspectsGoTogether)
    }

    fn claimable(&self, request: &ClaimRequest, now: Timestamp) -> impl Iterator<Item = &Entry> {
        let passed = if self.is(Mutant::ReadsByLastSeq) { self.highest_claimed } else { 0 };
        let ignores_lease = self.is(Mutant::ClaimIgnoresLease);
        let paused = self.paused.contains_key(&request.route) && !self.is(Mutant::ClaimIgnoresPause);
        let steps = request.steps == Steps::Take || self.is(Mutant::ClaimTakesSteps);
        self.rows.values().map(|row| &row.entry).filter(move |entry| {
            let leased = entry.status == Status::InFlight;
            entry.route == request.route
                && !paused
                && (steps || !entry.is_step())
                && !entry.status.is_terminal()
                && (!leased || ignores_lease)
                && (entry.due_at.is_none_or(|due| due <= now) || (ignores_lease && leased))
                && !entry.is_last_attempt(request.max_attempts)
                && !self.locked.contains(&entry.seq)
                && (entry.attempts > 0 || entry.seq > passed)
        })
    }

    fn take(&mut self, seq: i64, request: &ClaimRequest, now: Timestamp, claim: &mut Claim) {
        let counted = !self.is(Mutant::ClaimIsNotCounted);
        let fence_grows = !self.is(Mutant::FenceRestarts);
        self.highest_claimed = self.highest_claimed.max(seq);
        let Some(row) = self.rows.get_mut(&seq) else { return };
        if row.entry.status == Status::InFlight {
            // Only a planted defect comes here.
            row.step(Action::Reap);
        }
        row.step(Action::Claim);
        row.leased_at = Some(now);
        let entry = &mut row.entry;
        // Attempts count claims, not failures: a worker that dies must still run out of attempts.
        entry.attempts += u32::from(counted);
        entry.fence = if fence_grows { entry.fence.next(now) } else { Fence::NONE.next(Timestamp::MIN) };
        entry.owner = Some(request.owner.clone());
        entry.due_at = Some(now.saturating_add(request.lease));
        entry.last_attempt_at = Some(now);
        if row.spoiled {
            let failure = Failure::new(FailureKind::Undecodable, "headers", "the headers cannot be read");
            let event_id = Some(row.entry.event_id);
            claim.undecodable.push(Undecodable { held: row.entry.held(), event_id, failure });
        } else {
            claim.entries.push(row.entry.clone());
        }
    }

    pub(crate) fn extend(&mut self, request: &ExtendRequest, now: Timestamp) -> Extended {
        let mut extended = Extended::default();
        for held in &request.held {
            match self.held(*held) {
                Some(row) => {
                    row.leased_at = Some(now);
                    row.entry.due_at = Some(now.saturating_add(request.lease));
                }
                None => extended.fenced.push(*held),
            }
        }
        extended
    }

    /// The row of a claim that still stands.
    pub(crate) fn held(&mut self, held: Held) -> Option<&mut Row> {
        let fenced = !self.is(Mutant::SettleIgnoresFence);
        self.rows
            .get_mut(&held.seq)
            .filter(|row| row.entry.status == Status::InFlight && (row.entry.fence == held.fence || !fenced))
    }
}
