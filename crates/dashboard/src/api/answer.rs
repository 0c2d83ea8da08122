//! The answer to a change by hand: what was changed, what was skipped and why, and the audit records of this change.

use pillarbox_core::port::{AuditFilter, Changed, Skip, Skipped};
use pillarbox_core::{AuditKind, AuditRecord, Entry, RouteName, Standing, Status, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

use crate::json::AuditJson;
use crate::shared::Shared;
use crate::text;

/// How many skipped entries are looked up, each with what was done to it last.
const LOOKED_UP_MAX: usize = 20;
/// How many of the newest records are searched for the one of a change.
const SEARCHED_MAX: u32 = 20;

/// An entry that was not changed.
#[derive(Serialize, ToSchema)]
pub(crate) struct SkippedJson {
    event_id: String,
    route: String,
    /// The standing that does not allow the change, such as `in_flight`; or else `lane_held`, `due` or `open_saga`.
    reason: &'static str,
    /// The same for people, with who changed the entry last.
    why: String,
}

/// What a change did, or would do.
#[derive(Serialize, ToSchema)]
pub(crate) struct ChangedJson {
    dry_run: bool,
    /// Who did it, as the audit trail says.
    actor: String,
    changed: u64,
    /// How many entries do not allow the change. Those in `fenced` are among them.
    skipped: u64,
    /// How many entries were changed by others between the look and the change.
    fenced: u64,
    /// The first skipped entries with their reasons.
    skips: Vec<SkippedJson>,
    /// Ids that no route carries.
    missing: Vec<String>,
    /// Whether more entries may match: a change by a filter takes at most 10,000.
    more: bool,
    /// If there is more, the cursor with which the filter goes on behind these entries.
    cursor: Option<String>,
    /// The first audit records of this very change, at most 20.
    audit: Vec<AuditJson>,
    /// The same in a sentence.
    message: String,
}

/// What an answer says besides what the store did.
pub(super) struct Answer<'a> {
    /// The verb in the past tense.
    pub(super) done: &'a str,
    pub(super) actor: &'a str,
    /// The most entries that the change was allowed to look at.
    pub(super) limit: Option<u64>,
    pub(super) dry_run: bool,
}

impl Answer<'_> {
    pub(super) async fn tell(self, shared: &Shared, changed: Changed) -> ChangedJson {
        let mut skips = Vec::with_capacity(changed.skips.len());
        for (place, skipped) in changed.skips.iter().enumerate() {
            let why =
                if place < LOOKED_UP_MAX { why(shared, skipped).await } else { skipped.why.to_string() };
            let (event_id, route) = (skipped.event_id.to_string(), skipped.route.to_string());
            skips.push(SkippedJson { event_id, route, reason: reason(skipped.why), why });
        }
        let looked_at = changed.changed.saturating_add(changed.skipped);
        let more = self.limit.is_some_and(|limit| looked_at >= limit);
        ChangedJson {
            message: self.message(&changed, &skips, more),
            dry_run: self.dry_run,
            actor: self.actor.to_owned(),
            changed: changed.changed,
            skipped: changed.skipped,
            fenced: changed.fenced,
            skips,
            missing: changed.missing.iter().map(ToString::to_string).collect(),
            more,
            cursor: changed.cursor.filter(|_| more).map(|seq| seq.to_string()),
            audit: changed.audit.iter().map(AuditJson::from).collect(),
        }
    }

    fn message(&self, changed: &Changed, skips: &[SkippedJson], more: bool) -> String {
        let would = if self.dry_run { "would be " } else { "" };
        let mut message = format!("{} {would}{}", entries(changed.changed), self.done);
        let skipped = changed.skipped.saturating_sub(changed.fenced);
        if skipped > 0 {
            let first = skips.first().map(|skip| skip.why.as_str()).unwrap_or_default();
            message.push_str(&format!(", {} skipped: {first}", text::count(skipped)));
        }
        if changed.fenced > 0 {
            let fenced = text::count(changed.fenced);
            message.push_str(&format!(", {fenced} fenced: others changed them at the same moment"));
        }
        if !changed.missing.is_empty() {
            message.push_str(&format!(", {} not found", changed.missing.len()));
        }
        if !self.dry_run && changed.changed > 0 && changed.audit.is_empty() {
            message.push_str(UNREAD);
        }
        if more {
            message.push_str("; more may match, so run it again");
        }
        message
    }
}

/// What an answer says if the record of a change was not found.
const UNREAD: &str = "; its audit record could not be read";

fn reason(why: Skip) -> &'static str {
    match why {
        Skip::Standing(standing) => standing.as_str(),
        Skip::LaneHeld => "lane_held",
        Skip::Due => "due",
        Skip::OpenSaga(_) => "open_saga",
        _ => "other",
    }
}

/// Why an entry was skipped: who holds it, or who changed it last.
async fn why(shared: &Shared, skipped: &Skipped) -> String {
    let why = skipped.why.to_string();
    let Ok(stories) = shared.ports.admin.show(skipped.event_id).await else { return why };
    let Some(story) = stories.iter().find(|story| story.entry.route == skipped.route) else { return why };
    let now = shared.clock.now();
    if skipped.why == Skip::Standing(Standing::Is(Status::InFlight)) {
        return in_flight(&story.entry, now);
    }
    let by_hand = [AuditKind::Requeued, AuditKind::Discarded, AuditKind::Hastened, AuditKind::Cancelled];
    match story.audit.iter().rev().find(|record| by_hand.contains(&record.kind)) {
        Some(record) => {
            let ago = text::age(now.since(record.at));
            format!("{why}; it was {} by {} {ago} ago", record.kind, record.actor)
        }
        None => why,
    }
}

/// Who holds an entry in flight. One that was read by lane has no lease of its own.
fn in_flight(entry: &Entry, now: Timestamp) -> String {
    let held = entry.owner.as_deref().zip(entry.due_at).filter(|_| entry.status == Status::InFlight);
    match held {
        Some((owner, until)) if until > now => format!(
            "in flight: relay {} delivers it, and its lease ends in {} at the latest",
            text::visible(owner),
            text::age(until.since(now))
        ),
        Some((owner, _)) => format!(
            "in flight: relay {} had it, its lease has ended, and it is returned within seconds",
            text::visible(owner)
        ),
        None => "in flight: a relay delivers it now".to_owned(),
    }
}

/// How far the audit trail went before a change.
pub(super) struct Before(Option<i64>);

impl Before {
    /// Looks at the newest record. A dry run writes none.
    pub(super) async fn of(shared: &Shared, dry_run: bool) -> Self {
        if dry_run {
            return Self(None);
        }
        let newest = shared.ports.admin.trail(AuditFilter::default().limit(1)).await;
        Self(newest.ok().map(|records| records.first().map_or(i64::MIN, |record| record.seq)))
    }

    /// The record that the change has written: the first one since, of this kind, actor and route. The message says so if
    /// it is not found.
    pub(super) async fn record(
        self,
        shared: &Shared,
        kind: AuditKind,
        actor: &str,
        route: Option<&RouteName>,
        message: &mut String,
    ) -> Vec<AuditJson> {
        let filter = AuditFilter::default().kinds([kind]).actor(actor).limit(SEARCHED_MAX);
        let records = shared.ports.admin.trail(filter).await.unwrap_or_default();
        let is_ours = |record: &&AuditRecord| {
            self.0.is_some_and(|newest| record.seq > newest) && record.route.as_ref() == route
        };
        let ours: Vec<_> = records.iter().rev().find(is_ours).map(AuditJson::from).into_iter().collect();
        if ours.is_empty() {
            message.push_str(UNREAD);
        }
        ours
    }
}

/// `1 entry`, `2 entries`.
pub(super) fn entries(count: u64) -> String {
    let noun = if count == 1 { "entry" } else { "entries" };
    format!("{} {noun}", text::count(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_tells_what_others_changed_at_the_same_moment() {
        let record = AuditRecord::new(1, Timestamp::MIN, AuditKind::Requeued, "ana");
        let mut changed =
            Changed { changed: 7, skipped: 2, fenced: 2, audit: vec![record], ..Changed::default() };
        let answer = Answer { done: "requeued", actor: "ana", limit: None, dry_run: false };
        let told = answer.message(&changed, &[], false);
        assert_eq!(told, "7 entries requeued, 2 fenced: others changed them at the same moment");
        changed.audit.clear();
        let told = answer.message(&changed, &[], false);
        assert!(told.ends_with("; its audit record could not be read"), "{told}");
    }
}
