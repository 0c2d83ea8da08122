//! Entries behind the dead entry that holds them back, with what that one died of.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};
use pillarbox_core::{Entry, EventId, Failure, RouteName};

use crate::shared::Shared;
use crate::text;

use super::parts;

/// The most heads that one page reads. Entries behind further ones are shown without the error.
const READ_MAX: usize = 20;

/// What the heads of a page's entries died of.
#[derive(Default)]
pub(super) struct Heads(BTreeMap<(RouteName, EventId), Failure>);

impl Heads {
    /// The heads of these entries. Those that are not among them are read by their ids.
    pub(super) async fn of(shared: &Shared, entries: &[Entry]) -> Self {
        let mut heads = Self::default();
        let wanted: BTreeSet<EventId> = entries.iter().filter_map(|entry| entry.blocked_by).collect();
        for entry in entries.iter().filter(|entry| wanted.contains(&entry.event_id)) {
            heads.add(entry);
        }
        let listed: BTreeSet<EventId> = entries.iter().map(|entry| entry.event_id).collect();
        for id in wanted.difference(&listed).take(READ_MAX) {
            // Without it the entries are still worth showing.
            for story in shared.ports.admin.show(*id).await.unwrap_or_default() {
                heads.add(&story.entry);
            }
        }
        heads
    }

    fn add(&mut self, head: &Entry) {
        if let Some(error) = &head.last_error {
            self.0.insert((head.route.clone(), head.event_id), error.clone());
        }
    }

    /// Why an entry waits, if it waits behind a dead one.
    pub(super) fn why(&self, shared: &Shared, entry: &Entry) -> Option<Markup> {
        let head = entry.blocked_by?;
        let error = self.0.get(&(entry.route.clone(), head));
        Some(html! {
            "waits behind " a href=(parts::entry_path(shared, head)) { (text::short_id(&head.to_string())) } ", which is dead"
            @if let Some(error) = error { ": " (parts::error(error)) }
        })
    }
}

/// An event on a route.
type Place<'a> = (&'a RouteName, EventId);

/// Entries in the order in which they are drawn: each as before, but those that wait behind one of them follow it.
/// With each, whether it does.
pub(super) fn arranged(entries: &[Entry]) -> Vec<(&Entry, bool)> {
    let listed: BTreeSet<Place<'_>> = entries.iter().map(|entry| (&entry.route, entry.event_id)).collect();
    let mut behind: BTreeMap<Place<'_>, Vec<&Entry>> = BTreeMap::new();
    let mut first = Vec::with_capacity(entries.len());
    for entry in entries {
        let head = entry.blocked_by.map(|head| (&entry.route, head)).filter(|head| listed.contains(head));
        match head {
            Some(head) => behind.entry(head).or_default().push(entry),
            None => first.push(entry),
        }
    }
    let mut rows = Vec::with_capacity(entries.len());
    for entry in first {
        rows.push((entry, false));
        let followers = behind.remove(&(&entry.route, entry.event_id)).unwrap_or_default();
        rows.extend(followers.into_iter().map(|entry| (entry, true)));
    }
    rows
}

#[cfg(test)]
mod tests {
    use pillarbox_core::Timestamp;

    use super::*;

    fn id(number: u8) -> EventId {
        format!("01932c07-a9f0-7000-8000-0000000000{number:02x}").parse().unwrap()
    }

    fn entry(route: &str, number: u8, behind: Option<u8>) -> Entry {
        let route = RouteName::new(route).unwrap();
        let mut entry = Entry::new(number.into(), id(number), route, "t", Timestamp::MIN);
        entry.blocked_by = behind.map(id);
        entry
    }

    #[test]
    fn entries_follow_the_head_that_holds_them_back_and_nothing_is_lost() {
        let entries = [
            entry("a", 1, None),
            entry("a", 2, Some(9)),
            entry("a", 3, None),
            entry("b", 1, None),
            entry("b", 4, Some(1)),
            entry("a", 5, Some(1)),
            entry("a", 6, Some(1)),
        ];
        let drawn: Vec<(&str, i64, bool)> = arranged(&entries)
            .into_iter()
            .map(|(entry, is_behind)| (entry.route.as_str(), entry.seq, is_behind))
            .collect();
        assert_eq!(
            drawn,
            [
                ("a", 1, false),
                ("a", 5, true),
                ("a", 6, true),
                // Its head is on another page.
                ("a", 2, false),
                ("a", 3, false),
                ("b", 1, false),
                // The event of the same id on another route is not its head.
                ("b", 4, true),
            ]
        );
    }
}
