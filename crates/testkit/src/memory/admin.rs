//! The operator's side of the in-memory store.

use std::collections::BTreeMap;

use async_trait::async_trait;
use pillarbox_core::limits::{HEADS_NAMED_MAX, WAITS_MAX};
use pillarbox_core::port::shared::Verb;
use pillarbox_core::port::{
    Admin, AuditFilter, BlockingHead, Changed, CountBy, CountByRequest, CountGroup, Effect, Filter,
    InventoryRequest, InventoryRow, LaneBacklog, PauseChange, PauseRequest, PurgeRequest, Purged, Recent,
    RecentRequest, RouteCounts, SelectionRequest, Story, Waits, WaitsRequest,
};
use pillarbox_core::{
    AuditKind, AuditRecord, Entry, EventId, OnDead, Result, RouteName, Standing, Status, Timestamp,
};

use super::state::{Key, State};
use super::store::MemoryStore;

#[async_trait]
impl Admin for MemoryStore {
    async fn counts(&self, now: Option<Timestamp>) -> Result<Vec<RouteCounts>> {
        let now = self.shared.now(now);
        let state = self.shared.lock();
        let mut routes: BTreeMap<RouteName, RouteCounts> = BTreeMap::new();
        for entry in state.seen(now) {
            let route = entry.route.clone();
            let counts = routes.entry(route.clone()).or_insert_with(|| RouteCounts::zero(route));
            match (entry.standing(), entry.blocked_by) {
                (Standing::Is(status), _) => *counts.counts.entry(status).or_default() += 1,
                (Standing::Blocked, head) => {
                    counts.blocked += 1;
                    if let Some(head) = head {
                        name_head(&mut counts.heads, head, entry.key.as_deref().unwrap_or_default());
                    }
                }
            }
            let waits_since = entry.due_at.unwrap_or(entry.created_at);
            if !entry.status.is_terminal() && waits_since <= now {
                counts.oldest_due_age = counts.oldest_due_age.max(Some(now.since(waits_since)));
            }
        }
        for (route, pause) in &state.paused {
            let counts = routes.entry(route.clone()).or_insert_with(|| RouteCounts::zero(route.clone()));
            counts.paused = Some(pause.clone());
        }
        for counts in routes.values_mut() {
            counts.heads.sort_by_key(|head| (std::cmp::Reverse(head.blocked), head.event_id));
            counts.heads.truncate(usize::try_from(HEADS_NAMED_MAX).unwrap_or(usize::MAX));
        }
        Ok(routes.into_values().collect())
    }

    async fn list(&self, filter: Filter) -> Result<Vec<Entry>> {
        filter.check()?;
        let now = self.shared.now(None);
        let limit = usize::try_from(filter.limit).unwrap_or(usize::MAX);
        let state = self.shared.lock();
        Ok(state.seen(now).filter(|entry| is_meant(&filter, entry)).take(limit).collect())
    }

    async fn count_by(&self, request: CountByRequest) -> Result<Vec<CountGroup>> {
        request.filter.check()?;
        let now = self.shared.now(None);
        let state = self.shared.lock();
        let meant = state.seen(now).filter(|entry| is_meant(&request.filter, entry));
        let value = |entry: Entry| match request.by {
            CountBy::Type => Some(entry.event_type),
            CountBy::Error => entry.last_error.map(|error| error.to_string()),
            CountBy::Key => entry.key,
            CountBy::Tenant => entry.tenant,
            CountBy::TypeAndError => {
                let error = entry.last_error.map(|error| error.to_string()).unwrap_or_default();
                Some(format!("{}\u{1f}{error}", entry.event_type))
            }
        };
        let mut groups = CountGroup::gather(request.by, meant.map(|entry| (value(entry), 1)));
        groups.truncate(usize::try_from(request.filter.limit).unwrap_or(usize::MAX));
        Ok(groups)
    }

    async fn inventory(&self, request: InventoryRequest) -> Result<Vec<InventoryRow>> {
        request.check()?;
        let state = self.shared.lock();
        let rows = state.rows.values().map(|row| &row.entry).filter(|entry| entry.seq > request.after);
        let row = |entry: &Entry| InventoryRow {
            seq: entry.seq,
            event_id: entry.event_id,
            route: entry.route.clone(),
            key: entry.key.clone(),
            status: entry.status,
            created_at: entry.created_at,
        };
        Ok(rows.take(usize::try_from(request.limit).unwrap_or(usize::MAX)).map(row).collect())
    }

    async fn show(&self, id: EventId) -> Result<Vec<Story>> {
        let now = self.shared.now(None);
        let state = self.shared.lock();
        let entries = state.seen(now).filter(|entry| entry.event_id == id);
        let story = |entry: Entry| Story {
            audit: state
                .audit
                .iter()
                .filter(|record| record.event_id == Some(id) && record.route.as_ref() == Some(&entry.route))
                .cloned()
                .collect(),
            entry,
        };
        Ok(entries.map(story).collect())
    }

    async fn trail(&self, filter: AuditFilter) -> Result<Vec<AuditRecord>> {
        let state = self.shared.lock();
        let limit = usize::try_from(filter.limit).unwrap_or(usize::MAX);
        let is_meant = |record: &&AuditRecord| {
            (filter.kinds.is_empty() || filter.kinds.contains(&record.kind))
                && filter.actor.as_ref().is_none_or(|actor| *actor == record.actor)
                && filter.since.is_none_or(|since| record.at >= since)
                && filter.before.is_none_or(|before| record.seq < before)
        };
        Ok(state.audit.iter().rev().filter(is_meant).take(limit).cloned().collect())
    }

    async fn recent(&self, request: RecentRequest) -> Result<Recent> {
        let now = self.shared.now(request.now);
        Ok(self.shared.lock().recent(now.saturating_sub(request.within)))
    }

    async fn waits(&self, request: WaitsRequest) -> Result<Waits> {
        let now = self.shared.now(request.now);
        Ok(self.shared.lock().waits(&request.route, now.saturating_sub(request.within)))
    }

    async fn lanes_of(&self, route: &RouteName) -> Result<Vec<LaneBacklog>> {
        Ok(self.shared.lock().lane_backlogs(route))
    }

    async fn change(&self, request: SelectionRequest, verb: Verb) -> Result<Changed> {
        let now = self.shared.now(request.now);
        self.shared.lock().change(&request, verb, now)
    }

    async fn set_pause(&self, request: PauseRequest) -> Result<PauseChange> {
        request.check()?;
        let now = self.shared.now(request.now);
        self.shared.lock().set_pause(request, now)
    }

    async fn purge(&self, request: PurgeRequest) -> Result<Purged> {
        request.check()?;
        let now = self.shared.now(request.now);
        self.shared.lock().purge(&request, now)
    }

    async fn purge_inbox(&self, request: PurgeRequest) -> Result<Purged> {
        request.check()?;
        let now = self.shared.now(request.now);
        self.shared.lock().purge_inbox(&request, now)
    }
}

/// Counts one more entry behind this head.
fn name_head(heads: &mut Vec<BlockingHead>, event_id: EventId, key: &str) {
    match heads.iter_mut().find(|head| head.event_id == event_id) {
        Some(head) => head.blocked += 1,
        None => heads.push(BlockingHead { event_id, key: key.to_owned(), blocked: 1 }),
    }
}

/// Whether a filter means this entry, as an operator sees it. The limit is not looked at.
pub(super) fn is_meant(filter: &Filter, entry: &Entry) -> bool {
    let at = entry.settled_at.unwrap_or(entry.created_at);
    filter.status.is_none_or(|standing| standing == entry.standing())
        && filter.route.as_ref().is_none_or(|route| *route == entry.route)
        && filter.event_type.as_ref().is_none_or(|event_type| *event_type == entry.event_type)
        && filter.key.as_ref().is_none_or(|key| Some(key) == entry.key.as_ref())
        && filter.tenant.as_ref().is_none_or(|tenant| Some(tenant) == entry.tenant.as_ref())
        && filter.error_begins().is_none_or(|begins| {
            entry.last_error.as_ref().is_some_and(|error| format!("{error}: ").starts_with(&begins))
        })
        && filter.since.is_none_or(|since| at >= since)
        && filter.until.is_none_or(|until| at < until)
        && filter.after.is_none_or(|after| entry.seq > after)
}

impl State {
    /// What happened since this time.
    pub(super) fn recent(&self, since: Timestamp) -> Recent {
        let mut recent = Recent::default();
        for entry in self.rows.values().map(|row| &row.entry) {
            if entry.settled_at.is_some_and(|at| at > since) {
                *recent.ended.entry((entry.route.clone(), entry.status)).or_default() += 1;
            }
        }
        for (key, _) in self.accepted_at.iter().filter(|(_, at)| **at > since) {
            if let Key::Accepted(consumer, _) = key {
                *recent.accepted.entry(consumer.clone()).or_default() += 1;
            }
        }
        recent
    }

    /// How long the newest deliveries of a route since this time took.
    pub(super) fn waits(&self, route: &RouteName, since: Timestamp) -> Waits {
        let entries = self.rows.values().map(|row| &row.entry);
        let delivered = entries.filter(|entry| entry.status == Status::Delivered && entry.route == *route);
        let settled = delivered.filter_map(|entry| Some((entry.settled_at?, entry.created_at)));
        let mut lately: Vec<_> = settled.filter(|(at, _)| *at > since).collect();
        lately.sort_unstable();
        let mut waits = Waits::default();
        for (at, created) in lately.into_iter().rev().take(usize::try_from(WAITS_MAX).unwrap_or(usize::MAX)) {
            waits.add(at.since(created));
        }
        waits
    }

    /// All entries by seq, as an operator sees them: with what lanes have handed out, and whom blocked ones wait for.
    pub(super) fn seen(&self, now: Timestamp) -> impl Iterator<Item = Entry> {
        let mut heads: BTreeMap<(&RouteName, &str), EventId> = BTreeMap::new();
        self.rows.values().map(move |row| {
            let mut entry = row.entry.clone();
            let place = row.entry.key.as_deref().map(|key| (&row.entry.route, key));
            let blocks = self.on_dead.get(&entry.route) == Some(&OnDead::Block);
            if let Some(place) = place.filter(|_| blocks) {
                match entry.status {
                    Status::Dead => {
                        heads.entry(place).or_insert(entry.event_id);
                    }
                    Status::Pending | Status::Retrying => entry.blocked_by = heads.get(&place).copied(),
                    _ => {}
                }
            }
            if entry.blocked_by.is_none() && self.is_handed_out(&entry, now) {
                entry.status = Status::InFlight;
            }
            entry
        })
    }

    fn purge(&mut self, request: &PurgeRequest, now: Timestamp) -> Result<Purged> {
        let before = now.saturating_sub(request.older_than);
        let old: Vec<i64> = self
            .rows
            .values()
            .map(|row| &row.entry)
            .filter(|entry| matches!(entry.status, Status::Delivered | Status::Discarded))
            .filter(|entry| entry.settled_at.is_some_and(|settled| settled <= before))
            .take(usize::try_from(request.limit).unwrap_or(usize::MAX))
            .map(|entry| entry.seq)
            .collect();
        let purged = Purged { purged: old.len() as u64 };
        if request.effect == Effect::DryRun || old.is_empty() {
            return Ok(purged);
        }
        self.check_audit(true)?;
        self.record(now, AuditKind::Purged, &request.actor, None, format!("{} entries", old.len()));
        for seq in old {
            self.remove(seq);
        }
        Ok(purged)
    }
}
