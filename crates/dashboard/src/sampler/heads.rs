//! What the dead entries died of that others wait behind. Counts name them, and each is read by its id.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pillarbox_core::port::{Admin, RouteCounts};
use pillarbox_core::{EventId, Failure, RouteName};
use tokio::time::Instant;

/// The most heads that are read in one look.
const READ_MAX: usize = 8;
/// A head may be requeued and die again of something else, so it is read again after this time.
const KEPT: Duration = Duration::from_secs(60);

/// A head that was read.
struct Known {
    at: Instant,
    error: Option<Failure>,
}

/// The heads that were named last, as far as they were read.
#[derive(Default)]
pub(super) struct Heads {
    known: BTreeMap<RouteName, BTreeMap<EventId, Known>>,
}

impl Heads {
    /// Reads a few heads that are not known yet, or not any more. One that cannot be read is shown without its error.
    pub(super) async fn read(&mut self, admin: &dyn Admin, routes: &[RouteCounts]) {
        let named: BTreeMap<&RouteName, BTreeSet<EventId>> = routes
            .iter()
            .filter(|counts| !counts.heads.is_empty())
            .map(|counts| (&counts.route, counts.heads.iter().map(|head| head.event_id).collect()))
            .collect();
        self.known.retain(|route, heads| {
            let named = named.get(route);
            heads.retain(|id, _| named.is_some_and(|named| named.contains(id)));
            !heads.is_empty()
        });
        let mut due: Vec<(Option<Instant>, &RouteName, EventId)> = Vec::new();
        for (route, heads) in &named {
            for id in heads {
                let known = self.known.get(*route).and_then(|heads| heads.get(id)).map(|known| known.at);
                if known.is_none_or(|at| at.elapsed() >= KEPT) {
                    due.push((known, *route, *id));
                }
            }
        }
        // Those that were never read come first, and then the oldest.
        due.sort_by_key(|(at, _, _)| *at);
        for (_, route, id) in due.into_iter().take(READ_MAX) {
            let stories = admin.show(id).await.unwrap_or_default();
            let entry = stories.into_iter().map(|story| story.entry).find(|entry| entry.route == *route);
            let known = Known { at: Instant::now(), error: entry.and_then(|entry| entry.last_error) };
            self.known.entry(route.clone()).or_default().insert(id, known);
        }
    }

    /// What the heads of a route died of.
    pub(super) fn errors(&self, route: &RouteName) -> BTreeMap<EventId, Failure> {
        let known = self.known.get(route).into_iter().flatten();
        known.filter_map(|(id, known)| Some((*id, known.error.clone()?))).collect()
    }
}
