//! Taking due entries under a lease, and keeping them for longer.

use pillarbox_core::port::{Claim, ClaimOrder, ClaimRequest, ExtendRequest, Extended, Steps, Undecodable};
use pillarbox_core::{Action, Entry, Failure, FailureKind, Fence, Held, Hlc, Status, Timestamp};

use super::mutant::Mutant;
use super::state::{Row, State};

impl State {
    /// Two arms, as in the databases: what became due, at most half of the limit, and what was due at once.
    /// So a heap of retries never starves fresh entries.
    pub(crate) fn claim(&mut self, request: &ClaimRequest, now: Timestamp) -> Claim {
        let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
        let mut due: Vec<_> = self.claimable(request, now).filter(|entry| entry.due_at.is_some()).collect();
        due.sort_by_key(|entry| (entry.due_at, entry.seq));
        due.truncate(limit.div_ceil(2));
        let mut ready: Vec<_> = self.claimable(request, now).filter(|entry| entry.due_at.is_none()).collect();
        sort(&mut ready, request.order);
        ready.truncate(limit - due.len());

        let mut taken = due;
        taken.append(&mut ready);
        sort(&mut taken, request.order);
        let seqs: Vec<i64> = taken.iter().map(|entry| entry.seq).collect();

        let mut claim = Claim::default();
        for seq in seqs {
            self.take(seq, request, now, &mut claim);
        }
        claim
    }

    fn claimable(&self, request: &ClaimRequest, now: Timestamp) -> impl Iterator<Item = &Entry> {
        let passed = if self.is(Mutant::ReadsByLastSeq) { self.highest_claimed } else { 0 };
        let ignores_lease = self.is(Mutant::ClaimIgnoresLease);
        let steps = request.steps == Steps::Take || self.is(Mutant::ClaimTakesSteps);
        self.rows.values().map(|row| &row.entry).filter(move |entry| {
            let leased = entry.status == Status::InFlight;
            entry.route == request.route
                && (steps || !entry.is_step())
                && !entry.status.is_terminal()
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
        row.step(Action::Claim);
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
                Some(row) => row.entry.due_at = Some(now.saturating_add(request.lease)),
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

/// Oldest first.
fn sort(entries: &mut [&Entry], order: ClaimOrder) {
    match order {
        ClaimOrder::Staged => entries.sort_by_key(|entry| (entry.priority, entry.seq)),
        ClaimOrder::Causal => entries.sort_by_key(|entry| {
            // Rows without a stamp come after those with one.
            (entry.hlc.map_or(i64::MAX, Hlc::raw), entry.created_at, entry.seq)
        }),
    }
}
