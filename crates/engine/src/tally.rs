//! What a run did.

use std::time::Duration;

/// What a relay did. Each outcome is counted once it is durable in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// Entries that were claimed from the store.
    pub claimed: u64,
    /// Entries that the destination confirmed.
    pub delivered: u64,
    /// Entries that will be tried again: they failed, or their handler parked them.
    pub retried: u64,
    /// Entries that became dead: they are not tried again.
    pub dead: u64,
    /// Entries that were given back without spending the attempt.
    pub released: u64,
    /// Verdicts that came too late, so that the store refused them: this relay no longer owned the entry.
    pub fenced: u64,
    /// Entries with an expired lease of another relay that were returned to the queue.
    pub reaped: u64,
    /// How long the run took.
    pub elapsed: Duration,
}

impl Tally {
    /// What was counted after `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            claimed: self.claimed - before.claimed,
            delivered: self.delivered - before.delivered,
            retried: self.retried - before.retried,
            dead: self.dead - before.dead,
            released: self.released - before.released,
            fenced: self.fenced - before.fenced,
            reaped: self.reaped - before.reaped,
            elapsed: self.elapsed.saturating_sub(before.elapsed),
        }
    }
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.claimed += other.claimed;
        self.delivered += other.delivered;
        self.retried += other.retried;
        self.dead += other.dead;
        self.released += other.released;
        self.fenced += other.fenced;
        self.reaped += other.reaped;
        self.elapsed = self.elapsed.max(other.elapsed);
    }
}
