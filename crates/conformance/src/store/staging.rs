//! Staging: what an application writes inside its own transaction.

use std::time::Duration;

use pillarbox_core::limits::{DELAY_MAX, PAYLOAD_BYTES_DEFAULT};
use pillarbox_core::port::{Admin, Buffer, ClaimRequest, CountBy, CountByRequest, Filter, Stage};
use pillarbox_core::{
    CONTENT_TYPE_DEFAULT, ErrorKind, Event, Fence, PRIORITY_DEFAULT, Staged, Status, Timestamp,
};

use super::steps::*;
use crate::case::skip;
use crate::{StoreHarness, Tamper};

/// Staging it again in the same transaction finds it, so the transaction sees what it staged.
pub async fn a_staged_event_is_visible_inside_its_own_transaction<H: StoreHarness>(harness: &H) {
    let mut tx = harness.begin().await;
    let outbox = harness.outbox(ROUTE);
    assert_eq!(outbox.stage_all(&mut tx, vec![event(1)]).await.unwrap(), [Staged::Fresh(id(1))]);
    assert_eq!(outbox.stage_all(&mut tx, vec![event(1)]).await.unwrap(), [Staged::Duplicate(id(1))]);
    harness.commit(tx).await;
    assert_eq!(ids(&all(harness).await), [id(1)]);
}

/// Durable exactly at the commit: until then no other transaction reads it.
pub async fn a_staged_event_is_invisible_to_others_before_the_commit<H: StoreHarness>(harness: &H) {
    let mut tx = harness.begin().await;
    let staged = harness.outbox(ROUTE).stage_all(&mut tx, vec![event(1)]).await.unwrap();
    assert_eq!(staged, [Staged::Fresh(id(1))]);
    assert!(all(harness).await.is_empty());
    assert!(harness.store().show(id(1)).await.unwrap().is_empty());
    if harness.concurrent_writers() {
        assert!(claim(harness, 10, soon(harness).await).await.is_empty());
    }
    harness.commit(tx).await;
    assert_eq!(ids(&all(harness).await), [id(1)]);
}

/// What commits is there for a relay at once.
pub async fn a_committed_event_is_claimable<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![event(1)]).await, [Staged::Fresh(id(1))]);
    assert_eq!(ids(&claim(harness, 10, soon(harness).await).await), [id(1)]);
}

/// What rolls back never happened: not claimable, not listed, and its id is free again.
pub async fn a_rolled_back_event_is_never_delivered<H: StoreHarness>(harness: &H) {
    let mut tx = harness.begin().await;
    let staged = harness.outbox(ROUTE).stage_all(&mut tx, events(3)).await.unwrap();
    assert_eq!(staged.len(), 3);
    harness.rollback(tx).await;
    assert!(claim(harness, 10, soon(harness).await).await.is_empty());
    assert!(all(harness).await.is_empty());
    assert_eq!(stage(harness, vec![event(1)]).await, [Staged::Fresh(id(1))]);
    assert_eq!(ids(&claim(harness, 10, soon(harness).await).await), [id(1)]);
}

/// A savepoint takes back what was staged after it and nothing else.
pub async fn a_savepoint_rollback_takes_its_events_with_it<H: StoreHarness>(harness: &H) {
    if !harness.savepoints() {
        return skip("transactions of this database have no savepoints");
    }
    let outbox = harness.outbox(ROUTE);
    let mut tx = harness.begin().await;
    let before = outbox.stage_all(&mut tx, vec![event(1)]).await.unwrap();
    harness.savepoint(&mut tx).await;
    let within = outbox.stage_all(&mut tx, vec![event(2)]).await.unwrap();
    harness.rollback_to_savepoint(&mut tx).await;
    let after = outbox.stage_all(&mut tx, vec![event(3)]).await.unwrap();
    assert!([before, within, after].iter().flatten().all(|staged| !staged.is_duplicate()));
    harness.commit(tx).await;
    assert_eq!(ids(&all(harness).await), ids_of([1, 3]));
}

/// Nothing in, nothing done.
pub async fn staging_nothing_changes_nothing<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![]).await, []);
    assert!(all(harness).await.is_empty());
    assert!(harness.store().counts(None).await.unwrap().is_empty());
}

/// No ceiling: with one parameter a field, this many would be over what PostgreSQL and SQLite can bind.
pub async fn any_number_of_events_is_staged_at_once<H: StoreHarness>(harness: &H) {
    let number = 20_000;
    let staged = stage(harness, events(number)).await;
    assert_eq!(staged.len(), 20_000);
    assert!(staged.iter().all(|staged| !staged.is_duplicate()));
    assert_eq!(count(harness, Status::Pending).await, number);
}

/// Outcomes, `seq` and claims follow the order of the call.
pub async fn many_events_keep_their_order<H: StoreHarness>(harness: &H) {
    // Ids fall while the call goes on, so that an order by id would show.
    let staged = stage(harness, (1..=300).rev().map(event).collect()).await;
    let wanted = ids_of((1..=300).rev());
    assert_eq!(staged.into_iter().map(Staged::event_id).collect::<Vec<_>>(), wanted);
    let entries = claim(harness, 300, soon(harness).await).await;
    assert_eq!(ids(&entries), wanted);
    assert!(entries.is_sorted_by(|earlier, later| earlier.seq < later.seq));
}

/// Unique per route: the second staging says duplicate, is no error, and changes nothing of the first.
pub async fn the_same_event_id_on_the_same_route_is_one_entry<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![event(1)]).await, [Staged::Fresh(id(1))]);
    let before = all(harness).await;
    let again = Event::new("order.changed", "other").id(id(1)).key("k");
    assert_eq!(stage(harness, vec![again, event(2)]).await, [Staged::Duplicate(id(1)), Staged::Fresh(id(2))]);
    let after = all(harness).await;
    assert_eq!(ids(&after), ids_of([1, 2]));
    assert_eq!(after[0], before[0]);
}

/// Also within one call: the first one wins.
pub async fn the_same_event_id_twice_in_one_call_is_one_entry<H: StoreHarness>(harness: &H) {
    let twin = Event::new("order.changed", "other").id(id(1));
    let staged = stage(harness, vec![event(1), event(2), twin]).await;
    assert_eq!(staged, [Staged::Fresh(id(1)), Staged::Fresh(id(2)), Staged::Duplicate(id(1))]);
    assert_eq!(ids(&all(harness).await), ids_of([1, 2]));
    assert_eq!(entry(harness, 1).await.event_type, "order.placed");
}

/// The caller's transaction goes on after a duplicate.
pub async fn a_duplicate_does_not_poison_the_transaction<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, vec![event(1)]).await.len(), 1);
    let outbox = harness.outbox(ROUTE);
    let mut tx = harness.begin().await;
    assert_eq!(outbox.stage_all(&mut tx, vec![event(1)]).await.unwrap(), [Staged::Duplicate(id(1))]);
    assert_eq!(outbox.stage_all(&mut tx, vec![event(2)]).await.unwrap(), [Staged::Fresh(id(2))]);
    harness.commit(tx).await;
    assert_eq!(ids(&all(harness).await), ids_of([1, 2]));
}

/// The id stays taken for as long as the entry is there, whatever became of it.
pub async fn a_duplicate_of_a_settled_entry_is_a_duplicate<H: StoreHarness>(harness: &H) {
    bury(harness, [1]).await;
    assert_eq!(stage(harness, vec![event(1)]).await, [Staged::Duplicate(id(1))]);
    assert_eq!(entry(harness, 1).await.status, Status::Dead);
}

/// An id is unique per route, not in the world.
pub async fn another_route_may_carry_the_same_event_id<H: StoreHarness>(harness: &H) {
    assert_eq!(stage_on(harness, "orders", vec![event(1)]).await, [Staged::Fresh(id(1))]);
    assert_eq!(stage_on(harness, "mails", vec![event(1)]).await, [Staged::Fresh(id(1))]);
    let stories = harness.store().show(id(1)).await.unwrap();
    let mut routes: Vec<_> = stories.iter().map(|story| story.entry.route.as_str()).collect();
    routes.sort_unstable();
    assert_eq!(routes, ["mails", "orders"]);
}

/// Collected during an operation, staged once before the commit, refused after the flush.
pub async fn buffered_events_are_staged_once_at_the_flush<H: StoreHarness>(harness: &H) {
    let outbox = harness.outbox(ROUTE);
    let mut buffer = Buffer::new();
    buffer.stage(event(1)).unwrap();
    buffer.stage(event(2)).unwrap();
    let mut tx = harness.begin().await;
    let staged = buffer.flush(&outbox, &mut tx).await.unwrap();
    assert_eq!(staged, [Staged::Fresh(id(1)), Staged::Fresh(id(2))]);
    assert_eq!(buffer.stage(event(3)).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(buffer.flush(&outbox, &mut tx).await.unwrap_err().kind(), ErrorKind::Invalid);
    harness.commit(tx).await;
    assert_eq!(ids(&all(harness).await), ids_of([1, 2]));
}

/// A buffer belongs to one operation: what another one rolls back is not in it.
pub async fn two_buffers_do_not_share_events<H: StoreHarness>(harness: &H) {
    let outbox = harness.outbox(ROUTE);
    let (mut kept, mut dropped) = (Buffer::new(), Buffer::new());
    kept.stage(event(1)).unwrap();
    dropped.stage(event(2)).unwrap();
    kept.stage(event(3)).unwrap();
    let mut tx = harness.begin().await;
    assert_eq!(dropped.flush(&outbox, &mut tx).await.unwrap().len(), 1);
    harness.rollback(tx).await;
    let mut tx = harness.begin().await;
    assert_eq!(kept.flush(&outbox, &mut tx).await.unwrap().len(), 2);
    harness.commit(tx).await;
    assert_eq!(ids(&all(harness).await), ids_of([1, 3]));
}

/// The delay counts from staging by the database's clock.
pub async fn a_delayed_event_is_invisible_until_due<H: StoreHarness>(harness: &H) {
    let earliest = harness.now().await.saturating_add(HOUR);
    assert_eq!(stage(harness, vec![event(1).delay(HOUR)]).await.len(), 1);
    let latest = harness.now().await.saturating_add(HOUR);
    let due = entry(harness, 1).await.due_at.expect("a delayed entry has a due time");
    assert!(earliest <= due && due <= latest, "{earliest} <= {due} <= {latest}");
    assert!(claim(harness, 10, due.saturating_sub(Duration::from_micros(1))).await.is_empty());
    assert_eq!(ids(&claim(harness, 10, due).await), [id(1)]);
}

/// A limit reached is a typed error, before anything is written.
pub async fn what_is_out_of_bounds_is_refused_before_anything_is_written<H: StoreHarness>(harness: &H) {
    let long = "x".repeat(256);
    let plain = || Event::new("order.placed", "{}");
    let refused = [
        (ROUTE, Event::new("", "{}"), ErrorKind::Invalid),
        (ROUTE, Event::new(long.clone(), "{}"), ErrorKind::TooLarge),
        (ROUTE, Event::new("a\nb", "{}"), ErrorKind::Invalid),
        (ROUTE, plain().key(""), ErrorKind::Invalid),
        (ROUTE, plain().key(long.clone()), ErrorKind::TooLarge),
        (ROUTE, plain().header("", "v"), ErrorKind::Invalid),
        (ROUTE, plain().header("h", "v".repeat(5000)), ErrorKind::TooLarge),
        (ROUTE, plain().header("h", "a\0b"), ErrorKind::Invalid),
        (ROUTE, plain().delay(DELAY_MAX + SECOND), ErrorKind::Invalid),
        (ROUTE, plain().max_attempts(0), ErrorKind::Invalid),
        (ROUTE, Event::new("t", vec![b'x'; PAYLOAD_BYTES_DEFAULT + 1]), ErrorKind::TooLarge),
        ("", plain(), ErrorKind::Invalid),
        (&long, plain(), ErrorKind::TooLarge),
    ];
    for (route, bad, kind) in refused {
        let mut tx = harness.begin().await;
        // One good event beside the bad one: the call is all or nothing.
        let error = harness.outbox(route).stage_all(&mut tx, vec![event(1), bad]).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        harness.commit(tx).await;
    }
    assert!(all(harness).await.is_empty());
}

/// The check comes before the statement, so the caller's transaction goes on.
pub async fn a_refused_event_does_not_poison_the_transaction<H: StoreHarness>(harness: &H) {
    let outbox = harness.outbox(ROUTE);
    let mut tx = harness.begin().await;
    assert!(outbox.stage_all(&mut tx, vec![event(1).key("")]).await.is_err());
    assert_eq!(outbox.stage_all(&mut tx, vec![event(2)]).await.unwrap(), [Staged::Fresh(id(2))]);
    harness.commit(tx).await;
    assert_eq!(ids(&all(harness).await), [id(2)]);
}

/// Characters are counted, not bytes; the largest payload is taken.
pub async fn what_is_at_the_bound_is_stored_as_it_is<H: StoreHarness>(harness: &H) {
    let name = "é".repeat(255);
    let largest = Event::new(name.clone(), vec![7; PAYLOAD_BYTES_DEFAULT])
        .id(id(1))
        .key(name.clone())
        .header(name.clone(), "v".repeat(4096));
    assert_eq!(stage_on(harness, &name, vec![largest.clone()]).await, [Staged::Fresh(id(1))]);
    let stored = entry(harness, 1).await;
    assert_eq!(stored.route.as_str(), name);
    assert_eq!(stored.event_type, name);
    assert_eq!(stored.key.as_deref(), Some(name.as_str()));
    assert_eq!(stored.headers, largest.headers);
    assert!(stored.payload == largest.payload, "the payload changed");
    let request = ClaimRequest { route: route(&name), ..claim_request(1, soon(harness).await) };
    assert_eq!(ids(&claim_as(harness, request).await), [id(1)]);
}

/// Bytes are never rewritten: not trimmed, not parsed, not replaced because they look empty.
pub async fn payload_bytes_round_trip_unchanged<H: StoreHarness>(harness: &H) {
    let payloads: Vec<Vec<u8>> = vec![
        b"0".to_vec(),
        b"[]".to_vec(),
        b"\"\"".to_vec(),
        b"null".to_vec(),
        vec![],
        b"  {\"b\": 1,\n \"a\" : 1.0e0}  ".to_vec(),
        br"back\slash \x41 \\ \000".to_vec(),
        (0..=255).collect(),
        vec![0xff, 0xfe, 0x00, 0xc3],
        "snow \u{2603} \u{1f600}".as_bytes().to_vec(),
    ];
    let numbered = (1..).zip(&payloads);
    let staged = numbered.map(|(n, payload)| Event::new("t", payload.clone()).id(id(n))).collect();
    assert_eq!(stage(harness, staged).await.len(), payloads.len());
    let listed: Vec<_> = all(harness).await.into_iter().map(|entry| entry.payload).collect();
    assert_eq!(listed, payloads);
    let claimed = claim(harness, 100, soon(harness).await).await;
    assert_eq!(claimed.into_iter().map(|entry| entry.payload).collect::<Vec<_>>(), payloads);
}

/// Type, key, context, time, headers and policy: what goes in comes out, from a listing and from a claim.
pub async fn every_field_of_an_event_round_trips<H: StoreHarness>(harness: &H) {
    let full = |n, at| {
        Event::new("order.placed", "{}")
            .id(id(n))
            .key("o'1\"; --")
            .content_type("application/vnd.shop+json; charset=utf-8")
            .header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
            .header("quote\"s", "a \\ 'b' \"c\" {d}\n\u{1f600}")
            .header("empty", "")
            .tenant("north")
            .correlation_id("corr-1")
            .causation_id("cause-1")
            .execution_id("run-1")
            .occurred_at(at)
            .priority(-7)
            .group_id("group-1")
            .max_attempts(3)
    };
    let at = Timestamp::from_micros(1_763_171_696_123_456).unwrap();
    let wanted = [full(1, at), full(2, Timestamp::MIN), full(3, Timestamp::MAX)];
    assert_eq!(stage(harness, wanted.to_vec()).await.len(), 3);
    let listed = harness.store().list(Filter::default()).await.unwrap();
    let claimed = claim(harness, 10, soon(harness).await).await;
    for entries in [listed, claimed] {
        assert_eq!(entries.len(), 3);
        for (entry, event) in entries.iter().zip(&wanted) {
            assert_eq!(Some(entry.event_id), event.id);
            assert_eq!(entry.route.as_str(), ROUTE);
            assert_eq!(entry.event_type, event.event_type);
            assert_eq!(entry.key, event.key);
            assert_eq!(entry.payload, event.payload);
            assert_eq!(entry.content_type, event.content_type);
            assert_eq!(entry.headers, event.headers);
            assert_eq!(entry.tenant, event.tenant);
            assert_eq!(entry.correlation_id, event.correlation_id);
            assert_eq!(entry.causation_id, event.causation_id);
            assert_eq!(entry.execution_id, event.execution_id);
            assert_eq!(entry.occurred_at, event.occurred_at);
            assert_eq!(entry.priority, event.priority);
            assert_eq!(entry.group_id, event.group_id);
            assert_eq!(entry.max_attempts, event.max_attempts);
            assert!(entry.hlc.is_some(), "the library stamps what it stages");
        }
    }
}

/// What an event leaves out is stored as the contract's defaults.
pub async fn an_event_that_names_nothing_gets_the_defaults<H: StoreHarness>(harness: &H) {
    let before = harness.now().await;
    let staged = stage(harness, vec![Event::new("order.placed", "{}")]).await;
    let after = harness.now().await;
    let stored = all(harness).await.remove(0);
    assert_eq!(staged, [Staged::Fresh(stored.event_id)]);
    assert_eq!(stored.content_type, CONTENT_TYPE_DEFAULT);
    assert_eq!(stored.priority, PRIORITY_DEFAULT);
    assert_eq!((stored.status, stored.attempts, stored.fence), (Status::Pending, 0, Fence::NONE));
    assert!(before <= stored.created_at && stored.created_at <= after);
    assert!(stored.headers.keys().all(|name| name == "traceparent"));
    let unset = [stored.key, stored.tenant, stored.correlation_id, stored.causation_id, stored.execution_id];
    assert!(unset.iter().chain([&stored.group_id, &stored.owner]).all(Option::is_none));
    let times = [stored.occurred_at, stored.due_at, stored.last_attempt_at, stored.settled_at];
    assert!(times.iter().all(Option::is_none), "{times:?}");
    assert_eq!((stored.max_attempts, stored.last_error), (None, None));
}

/// The library makes UUIDs of version 7, so that ids of later events sort later.
pub async fn a_fresh_event_id_grows_with_time<H: StoreHarness>(harness: &H) {
    let staged = stage(harness, (0..100).map(|_| Event::new("t", "{}")).collect()).await;
    let fresh: Vec<_> = staged.into_iter().map(Staged::event_id).collect();
    assert!(fresh.is_sorted_by(|earlier, later| earlier < later), "{fresh:?}");
    assert!(fresh.iter().all(|id| id.0.get_version_num() == 7));
}

/// The SQL contract: every column but route, type and payload (or payload_bytes) has a default.
pub async fn a_plain_insert_of_three_columns_stages<H: StoreHarness>(harness: &H) {
    let payload = br#"{"path":"C:\\temp","n":1}"#.to_vec();
    tamper!(
        harness,
        Tamper::StagePlain {
            route: ROUTE.into(),
            event_type: "order.placed".into(),
            payload: payload.clone()
        }
    );
    let entries = claim(harness, 10, soon(harness).await).await;
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].event_type, "order.placed");
    assert_eq!(entries[0].payload, payload);
    assert_eq!(entries[0].content_type, CONTENT_TYPE_DEFAULT);
    assert_eq!(entries[0].priority, PRIORITY_DEFAULT);
    assert_eq!(entries[0].hlc, None);
    assert!(entries[0].headers.is_empty());
    assert_ne!(entries[0].event_id.0, uuid::Uuid::nil());
}

/// A text is staged as its own bytes, whatever a database takes a backslash, a quote or two hexadecimal digits for.
pub async fn a_text_of_plain_sql_arrives_byte_for_byte<H: StoreHarness>(harness: &H) {
    let texts = [
        r#"{"a":"C:\\temp"}"#,
        r#"{"said":"\"no\""}"#,
        r#"{"it's": "\u00e9 \101 \\x41 %s $1 ?"}"#,
        "{ \"name\": \"Zo\u{eb} \u{2603}\",\n\t\"n\": 1.0 }\n",
        "\\",
        "",
    ];
    for text in texts {
        let (route, event_type) = (ROUTE.into(), "order.placed".into());
        tamper!(harness, Tamper::StageText { route, event_type, payload: text.into() });
    }
    let entries = claim(harness, 10, soon(harness).await).await;
    let arrived: Vec<_> = entries.iter().map(|entry| String::from_utf8_lossy(&entry.payload)).collect();
    assert_eq!(arrived, texts);
}

/// A key, a type and a tenant are compared as they are written, byte by byte.
pub async fn keys_that_differ_in_case_accents_or_spaces_are_different<H: StoreHarness>(harness: &H) {
    let named = |(name, n): (&str, u64)| Event::new(name, "{}").id(id(n)).key(name).tenant(name);
    let _ = stage(harness, ALIKE.into_iter().zip(1..).map(named).collect()).await;
    let store = harness.store();
    for (name, n) in ALIKE.into_iter().zip(1..) {
        let (mut of_type, mut of_tenant) = (Filter::default(), Filter::default());
        (of_type.event_type, of_tenant.tenant) = (Some(name.into()), Some(name.into()));
        for filter in [Filter::default().key(name), of_type, of_tenant] {
            let listed = store.list(filter.clone()).await.unwrap();
            assert_eq!(ids(&listed), [id(n)], "{filter:?}");
            assert_eq!(listed[0].key.as_deref(), Some(name));
        }
    }
    let (filter, by) = (Filter::default(), CountBy::Key);
    let groups = store.count_by(CountByRequest { filter, by }).await.unwrap();
    assert_eq!(groups.len(), ALIKE.len(), "{groups:?}");
}

/// The same event is no duplicate on any of them, and each hands it out.
pub async fn routes_that_differ_in_case_accents_or_spaces_are_different<H: StoreHarness>(harness: &H) {
    for name in ALIKE {
        assert_eq!(stage_on(harness, name, vec![event(1)]).await, [Staged::Fresh(id(1))], "{name:?}");
    }
    let counts = harness.store().counts(None).await.unwrap();
    assert_eq!(counts.len(), ALIKE.len(), "{counts:?}");
    for name in ALIKE {
        let request = ClaimRequest { route: route(name), ..claim_request(100, soon(harness).await) };
        assert_eq!(ids(&claim_as(harness, request).await), [id(1)], "{name:?}");
    }
}
