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
    /// Any session that names an entry's seq may settle it, whatever lane it holds.
    LaneSettleIgnoresFence,
    /// What a dead session had in flight costs nothing.
    TakeOverIsNotCounted,
    /// What a dead session had not read or could not hand out costs an attempt as well.
    TakeOverCountsEverything,
    /// Suspects that a dead session had read cost an attempt, although it handed them out to nobody.
    TakeOverCountsSuspects,
    /// What a leaving session has read costs an attempt.
    LeavingIsCounted,
    /// A reader of a lane learns only of entries that it has read already.
    PresentLeavesOutLateCommits,
    /// A session is never told that it has more than its share.
    SurplusIsNotTold,
    /// Each session goes by its own number of shares.
    SharesAreNotAgreed,
    /// A read of lanes says that seqs were drawn that were not yet.
    DrawnIsTooHigh,
    /// An expired lease counts like a failure of the entry's own.
    CrashConvicts,
    /// Entries of expired leases come back all at once, beside everything else.
    SuspectsGoTogether,
    /// Rows are claimed of a route that is read by lanes.
    RowsIgnoreLanes,
    /// What relays by rows have in flight holds nothing back.
    LeasedHeadsAreNotTold,
    /// What a saga did is recorded after it shows.
    AuditAfterStatus,
    /// Whether a saga is complete is decided without holding it.
    CompletesWithoutLock,
    /// A saga is undone from its first step on.
    CompensatesForward,
    /// What is due, and when a lease ends, is decided by the clock of the worker, not of the database.
    WorkersClockDecides,
    /// A relay takes rows of a paused route.
    ClaimIgnoresPause,
    /// A relay keeps the lanes of a paused route.
    PausedLanesAreKept,
    /// An entry is cancelled although a relay may have read it.
    CancelIgnoresReaders,
    /// Past its deadline a saga takes an expired lease for a failure.
    DeadlineIgnoresLostLease,
    /// Every sweep begins with the first saga.
    SweepStartsOver,
    /// Steps of sagas are given to every relay that claims.
    ClaimTakesSteps,
    /// A discard takes the dead steps of open sagas too.
    DiscardTakesSteps,
}

impl Mutant {
    /// Every planted defect.
    pub const ALL: [Self; 33] = [
        Self::SettleIgnoresFence,
        Self::ClaimIgnoresLease,
        Self::ClaimIsNotCounted,
        Self::ReadsByLastSeq,
        Self::RollbackLeaks,
        Self::ReapForgetsEntry,
        Self::FenceRestarts,
        Self::DeadIsDropped,
        Self::ReleaseLosesEntry,
        Self::LaneSettleIgnoresFence,
        Self::TakeOverIsNotCounted,
        Self::TakeOverCountsEverything,
        Self::TakeOverCountsSuspects,
        Self::LeavingIsCounted,
        Self::PresentLeavesOutLateCommits,
        Self::SurplusIsNotTold,
        Self::SharesAreNotAgreed,
        Self::DrawnIsTooHigh,
        Self::CrashConvicts,
        Self::SuspectsGoTogether,
        Self::RowsIgnoreLanes,
        Self::LeasedHeadsAreNotTold,
        Self::AuditAfterStatus,
        Self::CompletesWithoutLock,
        Self::CompensatesForward,
        Self::WorkersClockDecides,
        Self::ClaimIgnoresPause,
        Self::PausedLanesAreKept,
        Self::CancelIgnoresReaders,
        Self::DeadlineIgnoresLostLease,
        Self::SweepStartsOver,
        Self::ClaimTakesSteps,
        Self::DiscardTakesSteps,
    ];
}
