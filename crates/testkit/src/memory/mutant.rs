//! Planted defects: each proves that a conformance case or a check of the simulator can fail.

/// One way in which a store can be wrong. Not part of the public contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Mutant {
    /// A stale owner's settle overwrites a newer claim.
    SettleIgnoresFence,
    /// Rows under a live lease are handed out again.
    ClaimIgnoresLease,
    /// Attempts do not grow.
    ClaimIsNotCounted,
    /// Fresh entries are read by a cursor: never below the highest seq that was handed out.
    ReadsByLastSeq,
    /// What was rolled back is visible.
    RollbackLeaks,
    /// An expired lease is lost instead of returned.
    ReapForgetsEntry,
    /// The fence does not grow.
    FenceRestarts,
    /// Dead entries vanish.
    DeadIsDropped,
    /// Released entries vanish.
    ReleaseLosesEntry,
}

impl Mutant {
    /// Every planted defect.
    pub const ALL: [Self; 9] = [
        Self::SettleIgnoresFence,
        Self::ClaimIgnoresLease,
        Self::ClaimIsNotCounted,
        Self::ReadsByLastSeq,
        Self::RollbackLeaks,
        Self::ReapForgetsEntry,
        Self::FenceRestarts,
        Self::DeadIsDropped,
        Self::ReleaseLosesEntry,
    ];
}
