//! Reading: what an operator sees, and that looking changes nothing.

use std::time::Duration;

use pillarbox_core::limits::{AUDIT_TOLD_MAX, LIST_DEFAULT, LIST_MAX};
use pillarbox_core::port::{
    Admin, AuditFilter, Effect, Filter, InventoryRequest, PurgeRequest, Selection, SelectionRequest, Verdict,
};
use pillarbox_core::{AuditKind, ErrorKind, Event, Status};

use super::steps::*;
use crate::{StoreHarness, Tamper};

/// Stages one entry of each status, with the ids 1 to 6 in the order of [`Status::ALL`].
async fn one_of_each<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, (2..=6).map(event).collect()).await.len(), 5);
    let now = soon(harness).await;
    let held = claim(harness, 5, now).await;
    let verdicts = [retry(HOUR), Verdict::Delivered, dead(), dead()];
    let batch = held[1..].iter().map(|entry| entry.held()).zip(verdicts).collect();
    assert_eq!(settle_all(harness, batch, now).await.accepted, 4);
    assert_eq!(harness.store().discard(select_ids([6])).await.unwrap().changed, 1);
    assert_eq!(stage(harness, vec![event(1)]).await.len(), 1);
}

/// Every status is named for every route, zeros included.
pub async fn counts_name_every_status_with_explicit_zeros<H: StoreHarness>(harness: &H) {
    assert!(harness.store().counts(None).await.unwrap().is_empty());
    one_of_each(harness).await;
    assert_eq!(stage_on(harness, "mails", vec![event(9)]).await.len(), 1);
    let mut counts = harness.store().counts(None).await.unwrap();
    counts.sort_by(|left, right| left.route.cmp(&right.route));
    let routes: Vec<_> = counts.iter().map(|counts| counts.route.as_str()).collect();
    assert_eq!(routes, ["mails", ROUTE]);
    for status in Status::ALL {
        assert_eq!(counts[0].counts[&status], u64::from(status == Status::Pending), "{status}");
        assert_eq!(counts[1].counts[&status], 1, "{status}");
    }
    assert_eq!((counts[0].undrained(), counts[1].undrained()), (1, 3));
}

/// A route that only has settled entries is still counted, and has nothing undrained.
pub async fn a_drained_route_is_counted<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(1)).await.len(), 1);
    let now = soon(harness).await;
    let held = claim_one(harness, now).await;
    settle(harness, &held, Verdict::Delivered, now).await;
    let counts = harness.store().counts(Some(now)).await.unwrap();
    assert_eq!(counts.len(), 1);
    assert_eq!((counts[0].undrained(), counts[0].oldest_due_age), (0, None));
    assert_eq!(counts[0].of(Status::Delivered), 1);
}

/// How long the oldest due entry has waited; what is not due does not wait.
pub async fn the_age_of_the_oldest_due_entry_is_told<H: StoreHarness>(harness: &H) {
    let age = async |now| harness.store().counts(Some(now)).await.unwrap().remove(0).oldest_due_age;
    assert_eq!(stage(harness, vec![event(1).delay(HOUR)]).await.len(), 1);
    let due = entry(harness, 1).await.due_at.expect("a delayed entry has a due time");
    assert_eq!(age(due.saturating_sub(SECOND)).await, None);
    assert_eq!(age(due.saturating_add(SECOND)).await, Some(SECOND));
    assert_eq!(stage(harness, vec![event(2)]).await.len(), 1);
    let staged = entry(harness, 2).await.created_at;
    assert_eq!(age(staged.saturating_add(SECOND)).await, Some(SECOND));
    let now = soon(harness).await;
    let held = claim_one(harness, now).await;
    assert_eq!((held.event_id, age(now).await), (id(2), None), "nothing waits: one is held, one is not due");
    assert_eq!(age(now.saturating_add(LEASE + SECOND)).await, Some(SECOND), "an expired lease waits");
}

/// Dead entries, oldest first, the whole entry, 100 unless told.
pub async fn the_list_of_dead_entries_is_oldest_first_and_bounded<H: StoreHarness>(harness: &H) {
    bury(harness, 1..=120).await;
    let listed = harness.store().list(Filter::dead()).await.unwrap();
    assert_eq!(listed.len(), LIST_DEFAULT as usize);
    assert_eq!(ids(&listed), ids_of(1..=100));
    assert_eq!(listed[6].payload, b"{\"n\":7}");
    assert!(listed.iter().all(|entry| entry.status == Status::Dead && entry.last_error.is_some()));
    let more = harness.store().list(Filter::dead().limit(110)).await.unwrap();
    assert_eq!(more.len(), 110);
    assert!(harness.store().list(Filter::dead().limit(0)).await.unwrap().is_empty());
}

/// Every field of a filter narrows the list.
pub async fn a_listing_is_narrowed_by_every_field<H: StoreHarness>(harness: &H) {
    one_of_each(harness).await;
    assert_eq!(stage(harness, vec![Event::new("order.paid", "{}").id(id(7)).key("o'7")]).await.len(), 1);
    assert_eq!(stage_on(harness, "mails", vec![event(8).key("o'7")]).await.len(), 1);
    let listed = async |filter| ids(&harness.store().list(filter).await.unwrap());
    let any = Filter::default;
    for (status, n) in Status::ALL.into_iter().zip(1..=6) {
        let filter = any().status(status).event_type("order.placed").route(route(ROUTE));
        assert_eq!(listed(filter).await, [id(n)], "{status}");
    }
    assert_eq!(listed(any().route(route("mails"))).await, ids_of([8]));
    assert_eq!(listed(any().event_type("order.paid")).await, ids_of([7]));
    assert_eq!(listed(any().key("o'7")).await, ids_of([7, 8]));
    assert_eq!(listed(any().key("o'7").route(route(ROUTE))).await, ids_of([7]));
    assert!(listed(any().key("%")).await.is_empty());
    assert_eq!(listed(any().limit(2)).await, ids_of([2, 3]));
}

/// Over the limit is an error, not a shorter list.
pub async fn a_listing_over_the_limit_is_refused<H: StoreHarness>(harness: &H) {
    let error = harness.store().list(Filter::default().limit(LIST_MAX + 1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

/// Page by page everything of all routes, whatever became of it, in the order of staging.
pub async fn an_inventory_is_everything_page_by_page<H: StoreHarness>(harness: &H) {
    one_of_each(harness).await;
    assert_eq!(stage_on(harness, "mails", vec![event(7).key("o'7")]).await.len(), 1);
    let (mut inventory, mut after) = (vec![], i64::MIN);
    loop {
        let page = harness.store().inventory(InventoryRequest { after, limit: 3 }).await.unwrap();
        after = page.last().map_or(after, |row| row.seq);
        let last = page.len() < 3;
        inventory.extend(page);
        if last {
            break;
        }
    }
    let everything = all(harness).await;
    assert_eq!(everything.len(), 7);
    for (row, entry) in inventory.iter().zip(&everything) {
        assert_eq!((row.seq, row.event_id, &row.route), (entry.seq, entry.event_id, &entry.route));
        assert_eq!((&row.key, row.status, row.created_at), (&entry.key, entry.status, entry.created_at));
    }
    assert_eq!(inventory.len(), everything.len());
    let too_much = InventoryRequest { after: 0, limit: LIST_MAX + 1 };
    assert_eq!(harness.store().inventory(too_much).await.unwrap_err().kind(), ErrorKind::Invalid);
}

/// The entry and its audit records, for each route; nothing for an unknown id.
pub async fn an_entrys_whole_story_is_shown<H: StoreHarness>(harness: &H) {
    bury(harness, [1, 2]).await;
    assert_eq!(harness.store().requeue(select_ids([1])).await.unwrap().changed, 1);
    assert_eq!(stage_on(harness, "mails", vec![event(1)]).await.len(), 1);
    let mut stories = harness.store().show(id(1)).await.unwrap();
    stories.sort_by(|left, right| left.entry.route.cmp(&right.entry.route));
    assert_eq!(stories.len(), 2);
    assert!(stories[0].audit.is_empty(), "the other route has a story of its own");
    let kinds: Vec<_> = stories[1].audit.iter().map(|record| record.kind).collect();
    assert_eq!(kinds, [AuditKind::Dead, AuditKind::Requeued]);
    assert!(harness.store().show(id(99)).await.unwrap().is_empty());
}

/// The newest records, oldest first.
pub async fn the_audit_trail_is_the_newest_records_oldest_first<H: StoreHarness>(harness: &H) {
    for n in 1..=3 {
        bury(harness, [n]).await;
    }
    let trail = harness.store().audit(2).await.unwrap();
    assert_eq!(trail.iter().filter_map(|record| record.event_id).collect::<Vec<_>>(), ids_of([2, 3]));
    assert!(trail[0].seq < trail[1].seq);
    assert!(harness.store().audit(0).await.unwrap().is_empty());
}

/// Page by page from the newest, and narrowed by kind, actor and time: each filter alone and all together.
pub async fn the_audit_trail_goes_on_behind_a_page_and_is_narrowed_by_every_field<H: StoreHarness>(
    harness: &H,
) {
    bury(harness, 1..=3).await;
    let by = |actor: &str, n| SelectionRequest { actor: actor.into(), ..select_ids([n]) };
    assert_eq!(harness.store().requeue(by("ana", 1)).await.unwrap().changed, 1);
    assert_eq!(harness.store().discard(by("ana", 2)).await.unwrap().changed, 1);
    let late = harness.now().await.saturating_add(HOUR);
    let discard = SelectionRequest { now: Some(late), ..by("bob", 3) };
    assert_eq!(harness.store().discard(discard).await.unwrap().changed, 1);
    let any = AuditFilter::default;
    let told = async |filter: AuditFilter| {
        let records = harness.store().trail(filter).await.unwrap();
        records.into_iter().map(|record| (record.kind, record.event_id.unwrap())).collect::<Vec<_>>()
    };
    use AuditKind::{Dead, Discarded, Requeued};
    let newest = [(Discarded, id(3)), (Discarded, id(2)), (Requeued, id(1))];
    assert_eq!(told(any().limit(3)).await, newest);
    assert_eq!(told(any().kinds([Requeued, Discarded])).await, newest);
    assert_eq!(told(any().kinds([Requeued])).await, newest[2..]);
    assert_eq!(told(any().actor("ana")).await, newest[1..]);
    assert_eq!(told(any().since(late)).await, newest[..1]);
    assert_eq!(told(any().kinds([Discarded]).actor("ana").since(late)).await, []);
    assert_eq!(told(any().kinds([AuditKind::Purged])).await, []);
    assert_eq!(told(any().limit(0)).await, []);
    let (mut page, mut seen) = (any().limit(2), vec![]);
    loop {
        let records = harness.store().trail(page.clone()).await.unwrap();
        let Some(last) = records.last() else { break };
        page = page.before(last.seq);
        seen.extend(records.iter().map(|record| record.kind));
    }
    assert_eq!(seen, [Discarded, Discarded, Requeued, Dead, Dead, Dead]);
}

/// What a change answers with are its own records, not those of a change like it, and only the first of many.
pub async fn a_change_answers_with_its_own_audit_records<H: StoreHarness>(harness: &H) {
    bury(harness, [1, 2]).await;
    let dry = SelectionRequest { effect: Effect::DryRun, ..select_ids([1]) };
    assert_eq!(harness.store().discard(dry).await.unwrap().audit, []);
    let first = harness.store().discard(select_ids([1])).await.unwrap().audit;
    let second = harness.store().discard(select_ids([1, 2])).await.unwrap();
    assert_eq!((second.changed, second.skipped, second.fenced), (1, 1, 0));
    let trail = harness.store().audit(2).await.unwrap();
    assert_eq!([first, second.audit].concat(), trail, "as the trail has them");
    assert_eq!(trail.iter().filter_map(|record| record.event_id).collect::<Vec<_>>(), ids_of([1, 2]));
    assert!(trail.iter().all(|record| record.kind == AuditKind::Discarded && record.actor == "ops"));

    let many = u64::from(AUDIT_TOLD_MAX) + 5;
    bury(harness, 10..10 + many).await;
    let changed = harness.store().requeue(select(Selection::Matching(Filter::dead()))).await.unwrap();
    let told: Vec<_> = changed.audit.iter().filter_map(|record| record.event_id).collect();
    assert_eq!((changed.changed, told), (many, ids_of(10..10 + u64::from(AUDIT_TOLD_MAX))));
}

/// Looking is free: no field of any entry moves.
pub async fn reading_changes_nothing<H: StoreHarness>(harness: &H) {
    one_of_each(harness).await;
    let (before, trail) = (all(harness).await, audit(harness).await);
    let store = harness.store();
    let far = soon(harness).await.saturating_add(HOUR * 1000);
    assert_eq!(store.counts(Some(far)).await.unwrap().len(), 1);
    assert_eq!(store.list(Filter::dead()).await.unwrap().len(), 1);
    assert_eq!(store.show(id(4)).await.unwrap().len(), 1);
    let mut dry = reap_request(far);
    dry.effect = Effect::DryRun;
    assert_eq!(reap(harness, dry).await.stale, 1);
    assert_eq!((all(harness).await, audit(harness).await), (before, trail));
}

fn purge_request(now: pillarbox_core::Timestamp) -> PurgeRequest {
    PurgeRequest {
        older_than: HOUR,
        limit: 1000,
        actor: "retention".into(),
        effect: Effect::Apply,
        now: Some(now),
    }
}

/// By age, only what is delivered or discarded, to the microsecond; dead entries are never purged.
pub async fn a_purge_takes_old_delivered_and_discarded_entries_only<H: StoreHarness>(harness: &H) {
    one_of_each(harness).await;
    let delivered = entry(harness, 4).await.settled_at.expect("a delivered entry is settled");
    let discarded = entry(harness, 6).await.settled_at.expect("a discarded entry is settled");
    let last = delivered.max(discarded);
    let early = last.saturating_add(HOUR).saturating_sub(Duration::from_micros(1));
    assert!(harness.store().purge(purge_request(early)).await.unwrap().purged < 2);
    let _ = harness.store().purge(purge_request(last.saturating_add(HOUR))).await.unwrap();
    let left: Vec<_> = all(harness).await.iter().map(|entry| entry.status).collect();
    use Status::{Dead, InFlight, Pending, Retrying};
    assert_eq!(left, [InFlight, Retrying, Dead, Pending]);
    let _ = harness.store().purge(purge_request(last.saturating_add(HOUR * 24 * 3650))).await.unwrap();
    assert_eq!(all(harness).await.len(), 4, "nothing else is ever too old");
}

/// At most the limit at once, audited with the count; if fewer are deleted, nothing is left.
pub async fn a_purge_is_bounded_and_audited_with_its_count<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(5)).await.len(), 5);
    let now = soon(harness).await;
    let held = claim(harness, 10, now).await;
    let batch = held.iter().map(|entry| (entry.held(), Verdict::Delivered)).collect();
    assert_eq!(settle_all(harness, batch, now).await.accepted, 5);
    let later = now.saturating_add(HOUR);
    let bounded = || PurgeRequest { limit: 3, ..purge_request(later) };
    let dry = PurgeRequest { effect: Effect::DryRun, ..bounded() };
    assert_eq!(harness.store().purge(dry).await.unwrap().purged, 3);
    assert_eq!((all(harness).await.len(), audit(harness).await.len()), (5, 0));
    let mut purged = vec![];
    for _ in 0..3 {
        purged.push(harness.store().purge(bounded()).await.unwrap().purged);
    }
    assert_eq!(purged, [3, 2, 0]);
    let trail = harness.store().audit(10).await.unwrap();
    assert_eq!(trail.len(), 2, "a purge of nothing leaves no record");
    assert!(trail.iter().all(|record| record.kind == AuditKind::Purged && record.actor == "retention"));
    assert!(trail[0].detail.contains('3') && trail[1].detail.contains('2'), "{trail:?}");
    assert_eq!(
        stage(harness, events(1)).await[0],
        pillarbox_core::Staged::Fresh(id(1)),
        "its id is free again"
    );
}

/// No audit, no purge.
pub async fn a_purge_that_cannot_be_audited_deletes_nothing<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(1)).await.len(), 1);
    let now = soon(harness).await;
    let held = claim_one(harness, now).await;
    settle(harness, &held, Verdict::Delivered, now).await;
    tamper!(harness, Tamper::FailAudit);
    assert!(harness.store().purge(purge_request(now.saturating_add(HOUR))).await.is_err());
    assert_eq!(all(harness).await.len(), 1);
    assert!(harness.tamper(Tamper::RepairAudit).await);
}
