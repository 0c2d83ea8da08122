//! How many entries can be handed out next, and which payloads they still need.

use tokio::time::Instant;

use super::super::chain::{Chain, Noted};
use super::Book;

impl Book {
    /// Whether one batch may have all entries of a key.
    pub(in super::super) fn hands_out_prefixes(&self) -> bool {
        self.per_key == super::super::ALL_OF_A_KEY
    }

    /// How many entries can go on now, with rows that cannot be read; not counted beyond `enough`. Of what was read, as
    /// much is put in its place as it takes.
    pub(in super::super) fn ready(&mut self, now: Instant, enough: usize) -> usize {
        self.note_due(now);
        loop {
            let ready = self.count_ready(enough);
            if ready >= enough || self.incoming.len() == 0 {
                return ready;
            }
            self.place(enough.max(1));
        }
    }

    /// How many entries the next `claims` can hand out, with everything that was read and may still turn out to wait; not
    /// counted beyond `enough`.
    pub(in super::super) fn ahead(&mut self, now: Instant, claims: usize, enough: usize) -> usize {
        self.note_due(now);
        let mut ahead = self.incoming.len();
        if self.hands_out_prefixes() {
            return ahead + self.count_ready(enough.saturating_sub(ahead));
        }
        let open = self.handed.values().filter(|handed| !handed.confirmed).map(|handed| handed.name);
        let following = open.filter_map(|name| self.chains.get(name));
        let following = following.filter(|chain| chain.noted == Some(Noted::Following));
        let ready = self.ready.values().filter_map(|name| self.chains.get(*name));
        for chain in ready.chain(following) {
            if ahead >= enough {
                break;
            }
            ahead += chain.queued.len().min(claims.saturating_mul(self.per_key));
        }
        ahead
    }

    /// How many entries can go once those before them are confirmed, one of each key; not counted beyond `enough`. Where
    /// all entries of one key follow each other in one batch, few have to wait, and they are not counted.
    pub(in super::super) fn following(&self, enough: usize) -> usize {
        if self.hands_out_prefixes() { 0 } else { self.following.min(enough) }
    }

    fn count_ready(&self, enough: usize) -> usize {
        let chains = if self.per_key == 1 {
            self.ready.len().min(enough)
        } else {
            self.next_chains(enough).map(|chain| chain.queued.len().min(self.per_key)).sum()
        };
        self.undecodable.len() + chains
    }

    /// Notes as ready what has waited long enough.
    fn note_due(&mut self, now: Instant) {
        while let Some(first) = self.waiting.first_entry().filter(|first| first.key().0 <= now) {
            let name = first.remove();
            if let Some(chain) = self.chains.get_mut(name) {
                chain.noted = None;
            }
            self.note_at(name, now);
        }
    }

    /// The chains from which the next entries are handed out, up to this many.
    fn next_chains(&self, entries: usize) -> impl Iterator<Item = &Chain> {
        let mut before = 0;
        let chains = self.ready.values().filter_map(|name| self.chains.get(*name));
        chains.take_while(move |chain| {
            let wanted = before < entries;
            before += chain.queued.len().min(self.per_key);
            wanted
        })
    }

    /// Seqs whose payloads are needed before this many entries can be handed out.
    pub(in super::super) fn missing(&self, limit: usize) -> Vec<i64> {
        let mut missing = Vec::new();
        for chain in self.next_chains(limit) {
            if chain.queued.front().is_some_and(|seq| !self.bodies.contains_key(seq)) {
                let wanted = chain.queued.iter().take(self.bodies_max);
                missing.extend(
                    wanted.filter(|seq| !self.bodies.contains_key(seq) && !self.due.contains_key(seq)),
                );
            }
            // Each may want as many as a key keeps: not all of them at once.
            if missing.len() >= limit {
                break;
            }
        }
        missing
    }
}
