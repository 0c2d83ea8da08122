//! Where the reader stands in one lane.

use pillarbox_core::Fence;
use pillarbox_core::port::LANES;

/// The most that is read ahead of one lane.
const CHUNK_MAX: u32 = 1024;

/// One lane that is held.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    pub(super) fence: Fence,
    /// The number of this run through it: it begins anew under another one.
    pub(super) run: u64,
    /// Up to where it was read, as the store says.
    pub(super) read_to: i64,
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
    pub(super) fn new(fence: Fence, run: u64) -> Self {
        Self { fence, run, read_to: 0, revision: None, unreadable: 0, chunk: 1, leaving: false }
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

/// A set of lanes.
pub(super) type Set = u64;

/// The set of one lane.
pub(super) fn set(lane: u8) -> Set {
    1 << (lane % LANES)
}

/// The lanes that are held, by number: they are looked up for each entry.
#[derive(Debug)]
pub(super) struct LaneMap([Option<Lane>; LANES as usize]);

impl Default for LaneMap {
    fn default() -> Self {
        Self([const { None }; LANES as usize])
    }
}

impl LaneMap {
    pub(super) fn get(&self, number: u8) -> Option<&Lane> {
        self.0.get(usize::from(number))?.as_ref()
    }

    pub(super) fn get_mut(&mut self, number: u8) -> Option<&mut Lane> {
        self.0.get_mut(usize::from(number))?.as_mut()
    }

    pub(super) fn insert(&mut self, number: u8, lane: Lane) {
        if let Some(place) = self.0.get_mut(usize::from(number)) {
            *place = Some(lane);
        }
    }

    pub(super) fn remove(&mut self, number: u8) {
        if let Some(place) = self.0.get_mut(usize::from(number)) {
            *place = None;
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u8, &Lane)> {
        (0..).zip(&self.0).filter_map(|(number, lane)| Some((number, lane.as_ref()?)))
    }
}
