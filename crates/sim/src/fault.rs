//! What can go wrong in a simulated world, by name.

use std::fmt;

use serde::Serialize;

/// One kind of trouble. Which kinds a world knows, and how often they strike, is drawn from its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Fault {
    /// A call to the store fails and did nothing.
    StoreFailsBefore,
    /// A call to the store took effect and its answer is lost.
    StoreFailsAfter,
    /// A call to the store takes a while.
    StoreIsSlow,
    /// A call to the store never answers; whether it took effect is open.
    StoreHangs,
    /// The store refuses a call in a way that a second try does not mend.
    StoreRefuses,
    /// Every call to the store fails for a while.
    StoreIsDown,
    /// The caller gives up on a call, and the store carries it out later all the same.
    LateEffect,
    /// Somebody locks a claimed row: calls that change it give up.
    LockedRow,
    /// A claimed row cannot be read.
    UndecodableRow,
    /// The destination fails this message.
    SinkFails,
    /// The destination fails this message and says when to come back.
    SinkFailsWithWait,
    /// The destination takes no more for now, and may say when to come back.
    SinkIsFull,
    /// The destination refuses this message for good.
    SinkRejects,
    /// The destination is down for a while.
    SinkIsDown,
    /// The sink panics in mid-batch.
    SinkPanics,
    /// A delivery takes a while.
    SinkIsSlow,
    /// A delivery never ends.
    SinkHangs,
    /// The destination has it, and the sink says that it does not know.
    ConfirmationLost,
    /// The sink says nothing of an entry.
    ReportMissing,
    /// The sink reports an entry twice, and an entry that is not in the batch.
    ReportTwice,
    /// Bytes under way arrive after the delivery was given up.
    LateDelivery,
    /// A relay is killed at a random time.
    Crash,
    /// A relay is killed in the middle of a call.
    CrashAtCall,
    /// An entry that kills whoever delivers it.
    PoisonedEntry,
    /// A relay is asked to stop, and started again.
    Stop,
    /// A relay stands still for a while, often past its lease.
    Freeze,
    /// The database's clock jumps ahead.
    ClockForward,
    /// The database's clock jumps back.
    ClockBackward,
    /// A producer rolls its transaction back.
    Rollback,
    /// A producer holds its transaction open, so that a lower seq commits later.
    HeldOpen,
    /// A producer stages an id that was staged before.
    SameIdTwice,
    /// A producer does not learn whether its commit happened, and does it all again.
    CommitAnswerLost,
    /// A producer drops the staging call while it waits for another transaction.
    DroppedStage,
    /// An operator requeues dead entries.
    Requeue,
    /// An operator discards dead entries.
    Discard,
    /// An operator reaps.
    Reap,
    /// Retention purges what is delivered.
    Purge,
}

impl Fault {
    /// Every kind.
    pub const ALL: [Self; 37] = [
        Self::StoreFailsBefore,
        Self::StoreFailsAfter,
        Self::StoreIsSlow,
        Self::StoreHangs,
        Self::StoreRefuses,
        Self::StoreIsDown,
        Self::LateEffect,
        Self::LockedRow,
        Self::UndecodableRow,
        Self::SinkFails,
        Self::SinkFailsWithWait,
        Self::SinkIsFull,
        Self::SinkRejects,
        Self::SinkIsDown,
        Self::SinkPanics,
        Self::SinkIsSlow,
        Self::SinkHangs,
        Self::ConfirmationLost,
        Self::ReportMissing,
        Self::ReportTwice,
        Self::LateDelivery,
        Self::Crash,
        Self::CrashAtCall,
        Self::PoisonedEntry,
        Self::Stop,
        Self::Freeze,
        Self::ClockForward,
        Self::ClockBackward,
        Self::Rollback,
        Self::HeldOpen,
        Self::SameIdTwice,
        Self::CommitAnswerLost,
        Self::DroppedStage,
        Self::Requeue,
        Self::Discard,
        Self::Reap,
        Self::Purge,
    ];

    /// How many times in a thousand it strikes when it has the chance, in a world of middling weather.
    #[must_use]
    pub const fn permille(self) -> u32 {
        match self {
            Self::StoreIsDown => 2,
            Self::CrashAtCall | Self::Freeze | Self::UndecodableRow => 4,
            Self::StoreHangs
            | Self::StoreRefuses
            | Self::LateEffect
            | Self::SinkPanics
            | Self::LockedRow
            | Self::SinkHangs
            | Self::SinkIsDown
            | Self::PoisonedEntry => 10,
            Self::SinkRejects | Self::SinkFailsWithWait | Self::SinkIsFull | Self::LateDelivery => 15,
            Self::StoreFailsBefore | Self::StoreFailsAfter | Self::ReportMissing => 30,
            Self::ReportTwice | Self::ConfirmationLost | Self::SinkFails | Self::CommitAnswerLost => 60,
            Self::StoreIsSlow | Self::SinkIsSlow | Self::Rollback | Self::HeldOpen | Self::SameIdTwice => 200,
            Self::DroppedStage => 300,
            Self::Crash
            | Self::Stop
            | Self::ClockForward
            | Self::ClockBackward
            | Self::Requeue
            | Self::Discard
            | Self::Reap
            | Self::Purge => 250,
        }
    }

    /// Whether it says nothing of the entries that it meets, however often it strikes.
    pub(super) const fn accuses_nobody(self) -> bool {
        matches!(
            self,
            Self::StoreFailsBefore
                | Self::StoreFailsAfter
                | Self::StoreIsSlow
                | Self::SinkIsDown
                | Self::SinkIsSlow
                | Self::ReportTwice
                | Self::Crash
                | Self::CrashAtCall
                | Self::PoisonedEntry
                | Self::Stop
        )
    }

    /// Whether a world without faults has it all the same: what applications and operators do every day.
    #[must_use]
    pub const fn is_daily(self) -> bool {
        matches!(
            self,
            Self::Rollback
                | Self::HeldOpen
                | Self::SameIdTwice
                | Self::CommitAnswerLost
                | Self::DroppedStage
                | Self::Requeue
                | Self::Discard
                | Self::Reap
                | Self::Purge
        )
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
