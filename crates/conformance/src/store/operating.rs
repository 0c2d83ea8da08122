//! Operating: bulk changes, waiting entries, paused routes, and keys that wait for a dead entry.

use std::time::Duration;

use futures_util::future::join;
use pillarbox_core::limits::WAITS_MAX;
use pillarbox_core::port::{
    Admin, AnnounceRequest, BlockingHead, Changed, ClaimOrder, ClaimRequest, CountBy, CountByRequest,
    CountGroup, Effect, Filter, Keep, Pause, PauseChange, PauseRequest, PauseTo, RecentRequest, RouteCounts,
    RunId, Selection, SelectionRequest, SettleRequest, Skip, Store as _, Verdict, Waits, WaitsRequest,
};
use pillarbox_core::{
    AuditKind, CircuitState, Entry, Event, EventId, Failure, FailureKind, OnDead, Standing, Status, Timestamp,
};
use tokio::sync::oneshot;

use super::between::*;
use super::steps::*;
use crate::{StoreHarness, Tamper};
use pillarbox_testkit::{MemorySink, eventually};

fn pause(to: PauseTo, now: Timestamp) -> PauseRequest {
    PauseRequest {
        route: route(ROUTE),
        to,
        actor: "ops".into(),
        reason: "the broker is being moved".into(),
        now: Some(now),
    }
}

fn matching(filter: Filter) -> SelectionRequest {
    select(Selection::Matching(filter))
}

async fn counted<H: StoreHarness>(harness: &H) -> RouteCounts {
    let counts = harness.store().counts(None).await.unwrap();
    counts.into_iter().find(|counts| counts.route.as_str() == ROUTE).unwrap()
}

async fn listed<H: StoreHarness>(harness: &H, filter: Filter) -> Vec<EventId> {
    ids(&harness.store().list(filter).await.unwrap())
}

/// No claim takes entries of a paused route, in any order. Other routes go on, and so does this one when it
/// is resumed.
pub async fn a_paused_route_is_not_claimed_until_it_is_resumed<H: StoreHarness>(harness: &H) {
    let now = harness.now().await;
    assert_eq!(harness.store().set_pause(pause(PauseTo::Paused, now)).await.unwrap(), PauseChange::Changed);
    let wanted = Pause { at: now, actor: "ops".into(), reason: "the broker is being moved".into() };
    assert_eq!(counted(harness).await.paused, Some(wanted.clone()), "also without any entry");
    assert_eq!(stage(harness, vec![event(1), event(2).delay(SECOND)]).await.len(), 2);
    assert_eq!(stage_on(harness, "mails", events(1)).await.len(), 1);
    let later = soon(harness).await.saturating_add(HOUR);
    for order in [ClaimOrder::Staged, ClaimOrder::Causal] {
        let request = ClaimRequest { order, ..claim_request(9, later) };
        assert!(harness.store().claim(request).await.unwrap().entries.is_empty(), "{order:?}");
    }
    let request = ClaimRequest { route: route("mails"), ..claim_request(9, later) };
    assert_eq!(harness.store().claim(request).await.unwrap().entries.len(), 1, "another route goes on");

    let again = pause(PauseTo::Paused, later);
    assert_eq!(harness.store().set_pause(again).await.unwrap(), PauseChange::Already);
    assert_eq!(counted(harness).await.paused, Some(wanted), "the first one holds");
    let resume = || pause(PauseTo::Running, later);
    assert_eq!(harness.store().set_pause(resume()).await.unwrap(), PauseChange::Changed);
    assert_eq!(harness.store().set_pause(resume()).await.unwrap(), PauseChange::Already);
    assert_eq!(counted(harness).await.paused, None);
    assert_eq!(claim(harness, 9, later).await.len(), 2);
    let trail = harness.store().audit(9).await.unwrap();
    let told: Vec<_> = trail.iter().map(|record| (record.kind, record.route.clone(), record.at)).collect();
    let of = Some(route(ROUTE));
    assert_eq!(
        told,
        [(AuditKind::RoutePaused, of.clone(), now), (AuditKind::RouteResumed, of, later)],
        "what changed nothing is not in it"
    );
    assert!(trail.iter().all(|record| record.actor == "ops" && record.detail.contains("broker")));
}

/// No audit, no pause.
pub async fn a_pause_that_cannot_be_audited_does_not_happen<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(1)).await.len(), 1);
    let now = soon(harness).await;
    tamper!(harness, Tamper::FailAudit);
    assert!(harness.store().set_pause(pause(PauseTo::Paused, now)).await.is_err());
    assert_eq!(counted(harness).await.paused, None);
    assert_eq!(claim(harness, 9, now).await.len(), 1);
}

/// A relay that runs stops taking entries, and takes them again, without being started anew.
pub async fn a_running_relay_honours_a_pause<H: StoreHarness>(harness: &H) {
    let sink = MemorySink::new();
    let relay = relay_to(harness, sink.clone()).build().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let operator = async {
        assert_eq!(stage(harness, vec![event(1)]).await.len(), 1);
        eventually(PATIENCE, async || undrained(harness).await == 0).await;
        let request = PauseRequest { now: None, ..pause(PauseTo::Paused, Timestamp::MIN) };
        assert_eq!(harness.store().set_pause(request).await.unwrap(), PauseChange::Changed);
        assert_eq!(stage(harness, vec![event(2)]).await.len(), 1);
        // Another relay that looks now finds nothing, and neither does a drain.
        assert_eq!(relay_to(harness, sink.clone()).build().unwrap().drain().await.unwrap().claimed, 0);
        assert_eq!(count(harness, Status::Pending).await, 1);
        let request = PauseRequest { now: None, ..pause(PauseTo::Running, Timestamp::MIN) };
        assert_eq!(harness.store().set_pause(request).await.unwrap(), PauseChange::Changed);
        eventually(PATIENCE, async || undrained(harness).await == 0).await;
        stop.send(()).unwrap();
    };
    let (tally, ()) = join(relay.run(async { drop(stopped.await) }), operator).await;
    assert_eq!(tally.unwrap().delivered, 2);
}

/// Leaves these dead at this time, with this kind of error.
async fn bury_at<H: StoreHarness>(harness: &H, events: Vec<Event>, kind: FailureKind, at: Timestamp) {
    let many = u32::try_from(stage(harness, events).await.len()).unwrap();
    for entry in claim(harness, many, at).await {
        let failure = Failure::new(kind, "code", "text");
        settle(harness, &entry, Verdict::dead(failure), at).await;
    }
}

/// Time, tenant, kind of error and limit narrow what is changed, as they narrow what is listed.
pub async fn a_change_is_narrowed_by_time_tenant_and_error<H: StoreHarness>(harness: &H) {
    let first = soon(harness).await;
    let (second, third) = (first.saturating_add(HOUR), first.saturating_add(2 * HOUR));
    bury_at(harness, vec![event(1), event(2).tenant("acme")], FailureKind::Rejected, first).await;
    bury_at(harness, vec![event(3)], FailureKind::Failed, second).await;
    bury_at(harness, vec![event(4).tenant("acme")], FailureKind::LeaseExpired, third).await;
    for (filter, wanted) in [
        (Filter::dead().since(second), vec![3, 4]),
        (Filter::dead().until(second), vec![1, 2]),
        (Filter::dead().since(second).until(third), vec![3]),
        (Filter::dead().tenant("acme"), vec![2, 4]),
        (Filter::dead().error(FailureKind::Rejected), vec![1, 2]),
        (Filter::dead().error(FailureKind::LeaseExpired).tenant("acme"), vec![4]),
        (Filter::dead().tenant("%"), vec![]),
    ] {
        assert_eq!(listed(harness, filter.clone()).await, ids_of(wanted.clone()), "{filter:?}");
        let dry = SelectionRequest { effect: Effect::DryRun, ..matching(filter.clone()) };
        let would = harness.store().discard(dry).await.unwrap();
        assert_eq!(would.changed, wanted.len() as u64, "{filter:?}");
    }
    let two = SelectionRequest { limit: Some(2), ..matching(Filter::dead()) };
    let dry = SelectionRequest { effect: Effect::DryRun, ..two.clone() };
    assert_eq!(harness.store().requeue(dry).await.unwrap().changed, 2);
    let changed = harness.store().requeue(two).await.unwrap();
    assert_eq!((changed.changed, changed.cursor), (2, Some(entry(harness, 2).await.seq)));
    assert_eq!(listed(harness, Filter::dead()).await, ids_of([3, 4]), "the oldest go first");
    let late = harness.store().discard(matching(Filter::dead().since(third))).await.unwrap();
    assert_eq!(late.changed, 1);
    assert_eq!(listed(harness, Filter::dead()).await, ids_of([3]));
}

/// A chunk goes on behind the one before it: what died again meanwhile is not changed twice.
pub async fn a_change_goes_on_behind_its_cursor<H: StoreHarness>(harness: &H) {
    bury(harness, 1..=3).await;
    let chunk = |filter| SelectionRequest { limit: Some(2), ..matching(filter) };
    let changed = harness.store().requeue(chunk(Filter::dead())).await.unwrap();
    assert_eq!(changed.changed, 2);
    let now = soon(harness).await;
    for entry in claim(harness, 9, now).await {
        settle(harness, &entry, dead(), now).await;
    }
    let behind = Filter::dead().after(changed.cursor.unwrap());
    let changed = harness.store().requeue(chunk(behind.clone())).await.unwrap();
    assert_eq!((changed.changed, changed.cursor), (1, Some(entry(harness, 3).await.seq)));
    assert_eq!(listed(harness, Filter::dead()).await, ids_of([1, 2]));
    let over = harness.store().requeue(chunk(Filter::dead().after(changed.cursor.unwrap()))).await.unwrap();
    assert_eq!((over.changed, over.cursor), (0, None));
}

/// Page by page, by the seq of the last entry, whatever lanes the entries are in.
pub async fn a_listing_goes_on_behind_its_last_entry<H: StoreHarness>(harness: &H) {
    bury(harness, 1..=5).await;
    let waiting = 6..=40;
    let keyed = |n: u64| event(n).key(format!("k{}", n % 7));
    assert_eq!(stage(harness, waiting.clone().map(keyed).collect()).await.len(), 35);
    let all = Filter::default;
    let of_key = ids_of(waiting.clone().filter(|n| n % 7 == 3));
    for (filter, wanted) in [
        (all(), ids_of(1..=40)),
        (Filter::dead(), ids_of(1..=5)),
        (all().status(Status::Pending), ids_of(waiting.clone())),
        (all().status(Status::Pending).route(route(ROUTE)), ids_of(waiting)),
        (all().status(Status::Pending).key("k3"), of_key),
    ] {
        let mut seen = vec![];
        let mut page = filter.limit(2);
        loop {
            let entries = harness.store().list(page.clone()).await.unwrap();
            let Some(last) = entries.last() else { break };
            page = page.after(last.seq);
            seen.extend(ids(&entries));
        }
        assert_eq!(seen, wanted, "{page:?}");
    }
}

/// Entries of other standings before the ones that match, and more of them behind, change nothing about a page: not their
/// number, their priority or their due time, and not whether the page can be filled.
pub async fn a_page_is_the_oldest_that_match_whatever_comes_before<H: StoreHarness>(harness: &H) {
    if !announce(harness, Some(OnDead::Block)).await {
        return;
    }
    let keyed = |n: u64| event(n).key(if n == 1 { "a".into() } else { format!("k{n}") });
    assert_eq!(stage(harness, (1..=8).map(keyed).collect()).await.len(), 8);
    let now = soon(harness).await;
    for (entry, n) in claim(harness, 8, now).await.iter().zip(1..) {
        let verdict = match n {
            1 => dead(),
            2 => Verdict::Delivered,
            _ => retry(HOUR),
        };
        settle(harness, entry, verdict, now).await;
    }
    assert_eq!(stage(harness, (9..=70).map(|n| event(n).key("a")).collect()).await.len(), 62);
    let others =
        vec![event(71), event(72).priority(5), event(73).delay(HOUR), event(74).priority(200), event(75)];
    assert_eq!(stage(harness, others).await.len(), 5);
    for (standing, wanted) in [
        (Standing::Is(Status::Pending), ids_of(71..=75)),
        (Standing::Is(Status::Retrying), ids_of(3..=8)),
        (Standing::Is(Status::InFlight), vec![]),
        (Standing::Is(Status::Dead), ids_of([1])),
        (Standing::Blocked, ids_of(9..=70)),
    ] {
        for limit in [1, 2, 40, 100] {
            let filter = Filter::default().status(standing).limit(limit);
            let (mut page, mut seen) = (filter.clone(), vec![]);
            loop {
                let entries = harness.store().list(page.clone()).await.unwrap();
                assert!(entries.len() <= limit as usize, "{standing} {limit}");
                let Some(last) = entries.last() else { break };
                page = page.after(last.seq);
                seen.extend(ids(&entries));
            }
            assert_eq!(seen, wanted, "{standing}, {limit} on a page");
            let first: Vec<_> = wanted.iter().copied().take(limit as usize).collect();
            assert_eq!(listed(harness, filter.route(route(ROUTE))).await, first, "{standing} of the route");
        }
    }
    let waiting = SelectionRequest { limit: Some(3), effect: Effect::DryRun, ..matching(Filter::default()) };
    let would = harness.store().cancel(waiting).await.unwrap();
    assert_eq!(
        (would.changed, would.cursor),
        (3, Some(entry(harness, 5).await.seq)),
        "the oldest of all that wait"
    );
    let pending = matching(Filter::default().status(Status::Pending));
    let would = harness
        .store()
        .cancel(SelectionRequest { limit: Some(2), effect: Effect::DryRun, ..pending })
        .await
        .unwrap();
    assert_eq!((would.changed, would.cursor), (2, Some(entry(harness, 72).await.seq)));
}

/// The largest group first; what has no value is a group too.
pub async fn entries_are_counted_by_type_error_key_and_tenant<H: StoreHarness>(harness: &H) {
    let now = soon(harness).await;
    let keyed = |n: u64, key: &str| event(n).key(key);
    bury_at(harness, vec![keyed(1, "a"), keyed(2, "b")], FailureKind::Rejected, now).await;
    let paid = Event::new("order.paid", "{}").id(id(3)).key("b").tenant("acme");
    bury_at(harness, vec![paid], FailureKind::Failed, now).await;
    assert_eq!(stage(harness, vec![event(4)]).await.len(), 1);
    let groups = async |filter: Filter, by| {
        let groups = harness.store().count_by(CountByRequest { filter, by }).await.unwrap();
        let pair = |group: CountGroup| (group.value.unwrap_or("-".into()), group.entries);
        groups.into_iter().map(pair).collect::<Vec<_>>()
    };
    let group = |value: &str, entries| (value.to_owned(), entries);
    let any = Filter::default;
    let by = groups(Filter::dead(), CountBy::Type).await;
    assert_eq!(by, [group("order.placed", 2), group("order.paid", 1)]);
    let by = groups(any(), CountBy::Error).await;
    assert_eq!(by, [group("rejected/code", 2), group("-", 1), group("failed/code", 1)]);
    assert_eq!(groups(any(), CountBy::Key).await, [group("b", 2), group("-", 1), group("a", 1)]);
    assert_eq!(groups(any(), CountBy::Tenant).await, [group("-", 3), group("acme", 1)]);
    assert_eq!(groups(any().limit(1), CountBy::Tenant).await, [group("-", 3)]);
    assert_eq!(groups(any().status(Status::Pending), CountBy::Type).await, [group("order.placed", 1)]);
}

/// Dead letters of one type and one error are one group, and a filter by kind and code selects exactly this group.
pub async fn a_group_of_a_type_and_an_error_is_selected_by_both<H: StoreHarness>(harness: &H) {
    let now = soon(harness).await;
    bury_at(harness, vec![event(1), event(2)], FailureKind::Rejected, now).await;
    let paid = Event::new("order.paid", "{}").id(id(3));
    bury_at(harness, vec![paid], FailureKind::Rejected, now).await;
    bury_at(harness, vec![event(4)], FailureKind::Failed, now).await;
    assert_eq!(stage(harness, vec![event(5)]).await.len(), 1);
    let by = CountBy::TypeAndError;
    let groups = harness.store().count_by(CountByRequest { filter: Filter::default(), by }).await.unwrap();
    let seen: Vec<_> = groups.iter().map(|group| (group.pair().unwrap(), group.entries)).collect();
    assert_eq!(
        seen,
        [
            (("order.placed", Some("rejected/code")), 2),
            (("order.paid", Some("rejected/code")), 1),
            (("order.placed", None), 1),
            (("order.placed", Some("failed/code")), 1),
        ]
    );
    let listed = async |filter: Filter| ids(&harness.store().list(filter).await.unwrap());
    let rejected = || Filter::dead().error(FailureKind::Rejected);
    assert_eq!(listed(rejected().error_code("code")).await, ids_of(1..=3));
    assert_eq!(listed(rejected().error_code("code").event_type("order.paid")).await, ids_of(3..=3));
    assert_eq!(listed(rejected().error_code("cod")).await, vec![]);
    assert_eq!(listed(rejected().error_code("code: ")).await, vec![]);
}

/// Only what ended within the time is counted, per route and status.
pub async fn what_ended_lately_is_counted_per_route_and_status<H: StoreHarness>(harness: &H) {
    let now = soon(harness).await;
    bury_at(harness, vec![event(1), event(2)], FailureKind::Rejected, now).await;
    assert_eq!(stage(harness, vec![event(3)]).await.len(), 1);
    let recent = async |later: u64, within: u64| {
        let now = Some(now.saturating_add(Duration::from_secs(later)));
        let within = Duration::from_secs(within);
        harness.store().recent(RecentRequest { within, now }).await.unwrap()
    };
    let found = recent(5, 10).await;
    assert_eq!(found.ended.values().sum::<u64>(), 2);
    assert_eq!(found.of(&route(ROUTE), Status::Dead), 2);
    assert_eq!(found.of(&route(ROUTE), Status::Delivered), 0);
    assert_eq!(recent(20, 10).await.ended.len(), 0);
}

async fn waits_of<H: StoreHarness>(harness: &H, on: &str, within: Duration, now: Timestamp) -> Waits {
    let request = WaitsRequest { route: route(on), within, now: Some(now) };
    harness.store().waits(request).await.unwrap()
}

fn waited<const N: usize>(waits: [Duration; N]) -> Waits {
    let mut all = Waits::default();
    waits.into_iter().for_each(|wait| all.add(wait));
    all
}

/// The time from staging to delivery, retries included, of the deliveries of one route within the time.
pub async fn how_long_deliveries_took_is_counted_per_route<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(5)).await.len(), 5);
    assert_eq!(stage_on(harness, "mails", vec![event(9)]).await.len(), 1);
    let now = soon(harness).await;
    let held = claim(harness, 9, now).await;
    assert_eq!(ids(&held), ids_of(1..=5));
    let after = |entry: &Entry, wait: Duration| entry.created_at.saturating_add(wait);
    settle(harness, &held[0], Verdict::Delivered, after(&held[0], 5 * SECOND)).await;
    settle(harness, &held[1], Verdict::Delivered, after(&held[1], 2 * HOUR)).await;
    settle(harness, &held[2], dead(), after(&held[2], 2 * HOUR)).await;
    settle(harness, &held[3], retry(SECOND), now).await;
    let retried = claim_one(harness, now.saturating_add(2 * SECOND)).await;
    settle(harness, &retried, Verdict::Delivered, after(&retried, 40 * SECOND)).await;
    let deleted = settle_request(vec![(held[4].held(), Verdict::Delivered)], now);
    let settled = harness.store().settle(SettleRequest { keep: Keep::No, ..deleted }).await.unwrap();
    assert_eq!(settled.accepted, 1);
    let mails = claim_as(harness, ClaimRequest { route: route("mails"), ..claim_request(9, now) }).await;
    settle(harness, &mails[0], Verdict::Delivered, after(&mails[0], 20 * SECOND)).await;

    let end = after(&held[1], 2 * HOUR + SECOND);
    let wanted = waited([5 * SECOND, 40 * SECOND, 2 * HOUR]);
    assert_eq!(waits_of(harness, ROUTE, 3 * HOUR, end).await, wanted, "what was deleted is not counted");
    assert_eq!(waits_of(harness, ROUTE, HOUR, end).await, waited([2 * HOUR]), "only what ended lately");
    assert_eq!(waits_of(harness, "mails", 3 * HOUR, end).await, waited([20 * SECOND]));
    assert_eq!(waits_of(harness, "nobody", 3 * HOUR, end).await, Waits::default());
}

/// However many there are.
pub async fn only_the_newest_deliveries_are_looked_at<H: StoreHarness>(harness: &H) {
    let most = u64::from(WAITS_MAX);
    assert_eq!(stage(harness, events(most + 1)).await.len() as u64, most + 1);
    let now = soon(harness).await;
    let held = claim(harness, WAITS_MAX + 1, now).await;
    settle(harness, &held[0], Verdict::Delivered, now).await;
    let end = now.saturating_add(2 * HOUR);
    let rest = held[1..].iter().map(|entry| (entry.held(), Verdict::Delivered)).collect();
    assert_eq!(settle_all(harness, rest, end).await.accepted, most);
    let waits = waits_of(harness, ROUTE, 3 * HOUR, end).await;
    assert_eq!((waits.entries(), waits.counts.last()), (most, Some(&most)), "{waits:?}");
}

/// Between two attempts, or staged with a delay: due at once, and what was spent stays spent.
pub async fn a_waiting_entry_is_hastened<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![event(1), event(2), event(3).delay(HOUR)]).await.len(), 3);
    let now = soon(harness).await;
    let held = claim_one(harness, now).await;
    settle(harness, &held, retry(HOUR), now).await;
    let at = |request| SelectionRequest { now: Some(now), ..request };
    let changed = harness.store().hasten(at(select_ids([1, 2, 3, 9]))).await.unwrap();
    assert_eq!((changed.changed, changed.missing, changed.skipped), (2, vec![id(9)], 1));
    assert_eq!((changed.skips[0].event_id, changed.skips[0].why), (id(2), Skip::Due));
    let (retried, delayed) = (entry(harness, 1).await, entry(harness, 3).await);
    assert_eq!((retried.status, retried.attempts, retried.due_at), (Status::Retrying, 1, None));
    assert_eq!((delayed.status, delayed.attempts, delayed.due_at), (Status::Pending, 0, None));
    let hastened = AuditKind::Hastened;
    assert_eq!(audit(harness).await, [(hastened, Some(id(1))), (hastened, Some(id(3)))]);
    let claimed = claim(harness, 9, now).await;
    assert_eq!(claimed.len(), 3);
    let none = harness.store().hasten(at(matching(Filter::default()))).await.unwrap();
    assert_eq!((none.changed, none.skipped), (0, 0), "nothing of a filter waits");
    settle(harness, &claimed[0], retry(HOUR), now).await;
    settle(harness, &claimed[1], retry(HOUR), now).await;
    let one = SelectionRequest { limit: Some(1), ..at(matching(Filter::default())) };
    assert_eq!(harness.store().hasten(one).await.unwrap().changed, 1);
}

/// Pending or retrying, it is discarded and not claimed; an entry in flight or with a final status is not
/// touched.
pub async fn a_waiting_entry_is_cancelled_and_never_delivered<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(4)).await.len(), 4);
    let now = soon(harness).await;
    let held = claim(harness, 3, now).await;
    settle(harness, &held[0], retry(HOUR), now).await;
    settle(harness, &held[1], Verdict::Delivered, now).await;
    let request = SelectionRequest { now: Some(now), ..select_ids([1, 2, 3, 4, 9]) };
    let dry = SelectionRequest { effect: Effect::DryRun, ..request.clone() };
    let wanted = harness.store().cancel(dry).await.unwrap();
    assert_eq!(count(harness, Status::Discarded).await, 0);
    let changed = harness.store().cancel(request.clone()).await.unwrap();
    assert_eq!(Changed { audit: vec![], ..changed.clone() }, wanted, "a dry run leaves no record");
    assert_eq!((changed.changed, &changed.missing), (2, &vec![id(9)]));
    let skips: Vec<_> = changed.skips.iter().map(|skip| (skip.event_id, skip.why)).collect();
    let is = |status| Skip::Standing(Standing::Is(status));
    assert_eq!(skips, [(id(2), is(Status::Delivered)), (id(3), is(Status::InFlight))]);
    for n in [1, 4] {
        let gone = entry(harness, n).await;
        assert_eq!((gone.status, gone.due_at, gone.settled_at), (Status::Discarded, None, Some(now)));
    }
    let cancelled = AuditKind::Cancelled;
    assert_eq!(audit(harness).await, [(cancelled, Some(id(1))), (cancelled, Some(id(4)))]);
    settle(harness, &held[2], Verdict::Delivered, now).await;
    assert!(claim(harness, 9, now.saturating_add(2 * HOUR)).await.is_empty());
    assert_eq!(harness.store().cancel(request).await.unwrap().changed, 0);
}

/// No audit, no change.
pub async fn nothing_is_hastened_or_cancelled_while_the_audit_fails<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![event(1).delay(HOUR)]).await.len(), 1);
    let before = all(harness).await;
    tamper!(harness, Tamper::FailAudit);
    assert!(harness.store().hasten(select_ids([1])).await.is_err());
    assert!(harness.store().cancel(select_ids([1])).await.is_err());
    assert_eq!(all(harness).await, before);
}

/// Tells what a dead entry does on [`ROUTE`].
async fn announce<H: StoreHarness>(harness: &H, on_dead: Option<OnDead>) -> bool {
    let Some(presence) = harness.presence() else {
        crate::case::skip("the store keeps no presence of relays");
        return false;
    };
    let request = AnnounceRequest {
        run: RunId(1),
        route: route(ROUTE),
        owner: "worker-1".into(),
        mode: "run".into(),
        wake: "poll".into(),
        in_flight: 0,
        circuit: CircuitState::Closed,
        outage: None,
        lease: Duration::from_secs(10),
        on_dead,
        now: None,
    };
    presence.announce(request).await.unwrap();
    presence.withdraw(RunId(1)).await.unwrap();
    true
}

/// Counted apart from what only waits, listed with the one that it waits for, and only on a route that blocks.
pub async fn what_waits_behind_a_dead_entry_is_blocked<H: StoreHarness>(harness: &H) {
    let keyed = |n: u64, key: &str| event(n).key(key);
    let staged = vec![keyed(1, "b"), keyed(2, "a"), keyed(3, "a"), keyed(4, "a"), event(5), keyed(6, "b")];
    assert_eq!(stage(harness, staged).await.len(), 6);
    let now = soon(harness).await;
    let held = claim(harness, 3, now).await;
    settle(harness, &held[0], Verdict::Delivered, now).await;
    settle(harness, &held[1], dead(), now).await;
    settle(harness, &held[2], retry(HOUR), now).await;
    let unordered = counted(harness).await;
    assert_eq!(
        (unordered.blocked, unordered.of(Status::Pending)),
        (0, 3),
        "nobody said that the route blocks"
    );
    if !announce(harness, Some(OnDead::Block)).await {
        return;
    }
    let counts = counted(harness).await;
    assert_eq!((counts.blocked, counts.of(Status::Pending), counts.of(Status::Retrying)), (2, 2, 0));
    assert_eq!((counts.of(Status::Dead), counts.undrained()), (1, 4));
    assert_eq!(counts.heads, [BlockingHead { event_id: id(2), key: "a".into(), blocked: 2 }]);
    for (standing, wanted) in [
        (Standing::Blocked, vec![3, 4]),
        (Standing::Is(Status::Pending), vec![5, 6]),
        (Standing::Is(Status::Retrying), vec![]),
        (Standing::Is(Status::Dead), vec![2]),
    ] {
        let filter = Filter::default().status(standing);
        let entries = harness.store().list(filter.clone()).await.unwrap();
        assert_eq!(ids(&entries), ids_of(wanted.clone()), "{standing}");
        assert!(entries.iter().all(|entry| entry.standing() == standing), "{standing}");
        let by = CountByRequest { filter, by: CountBy::Type };
        let sum: u64 = harness.store().count_by(by).await.unwrap().iter().map(|group| group.entries).sum();
        assert_eq!(sum, wanted.len() as u64, "{standing}");
    }
    let heads: Vec<_> = all(harness).await.iter().map(|entry| entry.blocked_by).collect();
    assert_eq!(heads, [None, None, Some(id(2)), Some(id(2)), None, None]);
    let stories = harness.store().show(id(4)).await.unwrap();
    assert_eq!((stories[0].entry.blocked_by, stories[0].entry.status), (Some(id(2)), Status::Pending));

    for other in [Some(OnDead::Skip), None] {
        assert!(announce(harness, other).await);
        assert_eq!(counted(harness).await.blocked, 0, "{other:?}");
    }
    assert!(announce(harness, Some(OnDead::Block)).await);
    assert_eq!(harness.store().requeue(select_ids([2])).await.unwrap().changed, 1);
    let counts = counted(harness).await;
    assert_eq!((counts.blocked, counts.of(Status::Pending), &counts.heads), (0, 4, &vec![]));
}

/// Those that hold back the most are named, and no more than a few.
pub async fn the_heads_that_hold_back_the_most_are_named<H: StoreHarness>(harness: &H) {
    if !announce(harness, Some(OnDead::Block)).await {
        return;
    }
    bury_at(
        harness,
        (1..=7).map(|n| event(n).key(n.to_string())).collect(),
        FailureKind::Failed,
        soon(harness).await,
    )
    .await;
    // Behind the n-th stand n others.
    let others = (1..=7).flat_map(|n| (0..n).map(move |i| event(100 * n + i).key(n.to_string())));
    assert_eq!(stage(harness, others.collect()).await.len(), 28);
    let counts = counted(harness).await;
    assert_eq!(counts.blocked, 28);
    let named: Vec<_> = counts.heads.iter().map(|head| (head.event_id, head.blocked)).collect();
    assert_eq!(named, (3..=7).rev().map(|n| (id(n), n)).collect::<Vec<_>>());
}
