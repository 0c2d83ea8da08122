//! Several looks into the outbox, read page by page as one list in the order of `seq`.

use std::collections::VecDeque;

use mongodb::bson::{Document, doc};
use pillarbox_core::Result;

use crate::call::Link;
use crate::command::{Find, stamp_of};
use crate::row::number;

/// How many entries are read of a look at first, at least.
const PAGE_MIN: i64 = 16;

/// The looks. What two of them have found is one entry: it has moved from one to the other in between.
pub(crate) struct Pages {
    looks: Vec<Look>,
    page_max: i64,
}

/// A look, and what it has read ahead.
struct Look {
    find: Find,
    /// The last entry that was read.
    after: Option<i64>,
    ahead: VecDeque<(i64, Document)>,
    is_done: bool,
}

impl Pages {
    /// `first` is how many entries are wanted at first, of all looks together; zero: all at once. Later pages grow up to
    /// `page_max`.
    pub(crate) fn new(finds: Vec<Find>, first: i64, page_max: i64) -> Self {
        // Nobody knows which look has the oldest entries. With many looks, most of a full page of each would be in vain.
        let page = match i64::try_from(finds.len()) {
            Ok(looks @ 2..) if first > 0 => (first / looks).max(PAGE_MIN),
            _ => first,
        };
        let look = |find: Find| Look {
            find: find.sort(doc! { "seq": 1 }).limit(page.min(page_max)),
            after: None,
            ahead: VecDeque::new(),
            is_done: false,
        };
        Self { looks: finds.into_iter().map(look).collect(), page_max }
    }

    /// The oldest entry that was not returned yet.
    pub(crate) async fn next(&mut self, link: &mut Link<'_>) -> Result<Option<Document>> {
        for look in &mut self.looks {
            look.fill(self.page_max, link).await?;
        }
        let Some(first) = self.looks.iter().filter_map(Look::first).min() else { return Ok(None) };
        let found = self.looks.iter_mut().filter(|look| look.first() == Some(first));
        Ok(found.filter_map(|look| look.ahead.pop_front()).last().map(|(_, document)| document))
    }
}

impl Look {
    fn first(&self) -> Option<i64> {
        self.ahead.front().map(|(seq, _)| *seq)
    }

    /// Reads on where the last page ended, so that nothing is gone through twice.
    async fn fill(&mut self, page_max: i64, link: &mut Link<'_>) -> Result<()> {
        if self.is_done || !self.ahead.is_empty() {
            return Ok(());
        }
        let mut find = self.find.clone();
        if let Some(after) = self.after {
            find.filter = doc! { "$and": [find.filter, { "seq": { "$gt": stamp_of(after) } }] };
        }
        let found = link.find(find).await?;
        self.is_done = self.find.limit == 0 || (found.len() as u64) < self.find.limit.unsigned_abs();
        self.ahead.extend(found.into_iter().map(|document| (number(&document, "seq"), document)));
        self.after = self.ahead.back().map(|(seq, _)| *seq);
        self.find.limit = (self.find.limit * 2).min(page_max);
        Ok(())
    }
}
