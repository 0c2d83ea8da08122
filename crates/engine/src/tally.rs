//! What a run did.

use std::time::Duration;

/// What a relay did, counted when it was durable in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// Entries taken from the store.
    pub claimed: u64,
    /// Entries that the destination confirmed.
    pub delivered: u64,
    /// Entries that failed and will be tried again.
    pub retried: u64,
    /// Entries that were given up.
    pub dead: u64,
    /// Entries that were given back without spending the attempt.
    pub released: u64,
    /// Verdicts that came too late: another owner had the entry by then.
    pub fenced: u64,
    /// Expired leases of others that were returned to the queue.
    pub reaped: u64,
    /// How long it took.
    pub elapsed: Duration,
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
