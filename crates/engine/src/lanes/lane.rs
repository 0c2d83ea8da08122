//! Where the reader stands in one lane.

use pillarbox_core::Fence;

/// The most that is read ahead of one lane.
const CHUNK_MAX: u32 = 1024;

/// One lane that is held.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    pub(super) fence: Fence,
    /// Where the stretches of the horizon end: it knows what to look for at or below.
    pub(super) floor: i64,
    /// The highest seq that was read.
    pub(super) cursor: i64,
    /// How often operators have changed it, as far as is known. `None`: what is dead in it, or stands before what
    /// was read, has to be looked up before any key goes on.
    pub(super) revision: Option<i64>,
    /// Rows of it that cannot be read, until their verdict is recorded. They may be of any key.
    pub(super) unreadable: usize,
    /// How much to read next.
    pub(super) chunk: u32,
    /// To be handed over: nothing of it is read or handed out any more.
    pub(super) leaving: bool,
}

impl Lane {
    pub(super) fn new(fence: Fence) -> Self {
        Self { fence, floor: 0, cursor: 0, revision: None, unreadable: 0, chunk: 1, leaving: false }
    }

    /// Whether nothing that has a key may go on for now.
    pub(super) fn holds_keys(&self) -> bool {
        self.revision.is_none() || self.unreadable > 0
    }

    /// So many entries were read of the `asked`: a full chunk grows the next one, a half-empty one halves it.
    pub(super) fn read(&mut self, asked: u32, got: u32) {
        if got >= asked {
            self.chunk = asked.saturating_mul(2).clamp(1, CHUNK_MAX);
        } else if got < asked / 2 {
            self.chunk = (asked / 2).max(1);
        }
    }
}
