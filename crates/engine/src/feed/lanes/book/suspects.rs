//! Entries that came back from an expired lease: which may go, and together with how many.

use pillarbox_core::{Entry, Fence, Timestamp, company};
use tokio::time::Instant;

use super::Book;

impl Book {
    /// In how large a company the least accused suspect that waits may go.
    pub(in super::super) fn suspects_waiting(&self) -> Option<u32> {
        self.least_accused().map(company)
    }

    /// How many leases of the least accused suspect that can go have expired.
    pub(in super::super) fn least_accused(&self) -> Option<u32> {
        self.suspects.first_key_value().map(|((crashes, _), _)| *crashes)
    }

    /// So many that are accused as often, oldest first, and whose payload is here.
    pub(in super::super) fn suspects_of(&self, crashes: u32, most: usize) -> Vec<i64> {
        let equals = self.suspects.range((crashes, i64::MIN)..=(crashes, i64::MAX)).map(|((_, seq), _)| *seq);
        equals.filter(|seq| self.bodies.contains_key(seq)).take(most).collect()
    }

    /// Of the first suspects, those whose payload has to be fetched.
    pub(in super::super) fn suspects_without_payload(&self, most: usize) -> Vec<i64> {
        let first = self.suspects.keys().map(|(_, seq)| *seq).take(most);
        first.filter(|seq| !self.bodies.contains_key(seq)).collect()
    }

    /// These, and everything that is in flight.
    pub(in super::super) fn with_handed(&self, seqs: &[i64]) -> Vec<i64> {
        let mut all: Vec<i64> = self.handed.keys().chain(seqs).copied().collect();
        all.sort_unstable();
        all
    }

    /// Whether a suspect was handed out and has no verdict yet.
    pub(in super::super) fn has_handed_suspects(&self) -> bool {
        !self.crashes.is_empty() && self.handed.keys().any(|seq| self.crashes.contains_key(seq))
    }

    /// Hands out these suspects, as far as they still can go.
    pub(in super::super) fn hand_out_suspects(
        &mut self,
        seqs: &[i64],
        owner: &str,
        lease_end: Timestamp,
        at: Instant,
    ) -> Vec<Entry> {
        let mut out = Vec::with_capacity(seqs.len());
        for seq in seqs {
            let Some(crashes) = self.crashes.get(seq).copied() else { continue };
            let Some(name) = self.suspects.get(&(crashes, *seq)).copied() else { continue };
            let Some(chain) = self.chains.get_mut(name) else { continue };
            let Some(entry) = self.bodies.remove(seq) else { continue };
            let fence = self.lanes.get(chain.lane).map_or(Fence::NONE, |lane| lane.fence);
            let (entry, handed) = chain.hand_out(name, fence, entry, owner, lease_end, at);
            self.handed.insert(*seq, handed);
            out.push(entry);
            self.note_at(name, at);
        }
        out
    }
}
