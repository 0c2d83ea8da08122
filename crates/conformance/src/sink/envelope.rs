//! The envelope and the order, as they arrive: the cases that look beside the payload.

use std::collections::{BTreeMap, BTreeSet};

use pillarbox_core::{Entry, Event};

use super::{EVENT_TYPES, SinkHarness, all_confirmed, deliver, entry, id, look, skip};
use pillarbox_testkit::sample_entry;

/// Everything that arrived beside a payload, by name.
type Context = BTreeMap<String, String>;

/// What arrived beside the payloads; ends the case, and prints that, where the arrived messages cannot be
/// read.
macro_rules! contexts {
    ($harness:expr) => {
        match $harness.contexts().await {
            Some(contexts) => contexts,
            None => {
                skip("the sink shows no envelope");
                return;
            }
        }
    };
}

fn of(event: Event) -> Entry {
    sample_entry(pillarbox_core::RouteName::new("sample").unwrap(), event)
}

fn get<'a>(context: &'a Context, name: &str) -> Option<&'a str> {
    context.get(name).map(String::as_str)
}

/// The context of one event, whatever arrived first.
fn context_of(contexts: &[Context], n: u64) -> &Context {
    let id = id(n).to_string();
    contexts.iter().find(|context| get(context, "id") == Some(id.as_str())).expect("the event arrived")
}

/// Every field of the event and of its entry that has something in it arrives under its own name.
pub async fn every_known_context_field_arrives(harness: &dyn SinkHarness) {
    let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let mut full = of(Event::new(EVENT_TYPES[0], "{}")
        .id(id(1))
        .key("Euro \u{20ac} 100%")
        .tenant("acme")
        .correlation_id("c-1")
        .causation_id("b-1")
        .execution_id("e-1")
        .header("traceparent", traceparent)
        .header("shop", "north"));
    full.seq = 7;
    full.occurred_at = Some("2026-02-03T04:05:06Z".parse().unwrap());
    (full.lane, full.fence) = (Some(3), pillarbox_core::Fence(99));
    all_confirmed(&deliver(harness, std::slice::from_ref(&full)).await);
    let contexts = contexts!(harness);
    let hlc = full.hlc.unwrap().to_string();
    for (name, value) in [
        ("specversion", "1.0"),
        ("id", id(1).to_string().as_str()),
        ("type", EVENT_TYPES[0]),
        ("time", "2026-02-03T04:05:06Z"),
        ("subject", "Euro \u{20ac} 100%"),
        ("partitionkey", "Euro \u{20ac} 100%"),
        ("datacontenttype", "application/json"),
        ("traceparent", traceparent),
        ("correlationid", "c-1"),
        ("causationid", "b-1"),
        ("tenantid", "acme"),
        ("executionid", "e-1"),
        ("pillarboxhlc", hlc.as_str()),
        ("pillarboxseq", "7"),
        ("pillarboxlane", "sample/3"),
        ("pillarboxfence", "99"),
        ("shop", "north"),
    ] {
        assert_eq!(get(&contexts[0], name), Some(value), "{name} in {contexts:?}");
    }
    assert!(contexts[0].contains_key("source"), "{contexts:?}");
}

/// Not there, rather than there and empty.
pub async fn what_is_not_set_does_not_arrive(harness: &dyn SinkHarness) {
    let mut bare = of(Event::new(EVENT_TYPES[0], "{}").id(id(1)));
    bare.hlc = None;
    all_confirmed(&deliver(harness, &[bare]).await);
    let contexts = contexts!(harness);
    let names: BTreeSet<&str> = contexts[0].keys().map(String::as_str).collect();
    let wanted =
        ["specversion", "id", "source", "type", "time", "partitionkey", "datacontenttype", "pillarboxseq"];
    assert_eq!(names, BTreeSet::from(wanted));
}

/// No header of a caller passes for an attribute, in no spelling; the others travel.
pub async fn reserved_names_win_over_the_callers_headers(harness: &dyn SinkHarness) {
    let event = Event::new(EVENT_TYPES[0], "{}").id(id(1)).header("shop", "north");
    let names = [
        "id",
        "type",
        "subject",
        "partitionkey",
        "tenantid",
        "ce-id",
        "ce-tenantid",
        "cloudEvents:type",
        "cloudEvents_subject",
        "Pillarboxseq",
        "pillarboxfence",
        "content-type",
    ];
    let forged = names.into_iter().fold(event, |event, name| event.header(name, "forged"));
    all_confirmed(&deliver(harness, &[of(forged)]).await);
    let contexts = contexts!(harness);
    let context = &contexts[0];
    assert!(context.values().all(|value| !value.contains("forged")), "{context:?}");
    assert_eq!(get(context, "id"), Some(id(1).to_string().as_str()));
    assert_eq!((get(context, "type"), get(context, "shop")), (Some(EVENT_TYPES[0]), Some("north")));
}

/// What a broker may partition by: the ordering key, or the event id without one.
pub async fn the_transport_key_is_the_ordering_key_or_the_event_id(harness: &dyn SinkHarness) {
    let keyed = of(Event::new(EVENT_TYPES[0], "{}").id(id(1)).key("o-1"));
    let unkeyed = of(Event::new(EVENT_TYPES[0], "{}").id(id(2)));
    all_confirmed(&deliver(harness, &[keyed, unkeyed]).await);
    let contexts = contexts!(harness);
    let keys = |n: u64| {
        let context = context_of(&contexts, n);
        (get(context, "subject"), get(context, "partitionkey"))
    };
    assert_eq!(keys(1), (Some("o-1"), Some("o-1")));
    assert_eq!(keys(2), (None, Some(id(2).to_string().as_str())));
}

/// Two events that differ in nothing but their ids are two.
pub async fn events_of_one_key_are_not_taken_for_repetitions(harness: &dyn SinkHarness) {
    let same = |n: u64| of(Event::new(EVENT_TYPES[0], "{}").id(id(n)).key("o-1"));
    all_confirmed(&deliver(harness, &[same(1), same(2)]).await);
    all_confirmed(&deliver(harness, &[same(3)]).await);
    look!(harness);
    let mut received: Vec<_> = harness.received().await.iter().map(|received| received.event_id).collect();
    received.sort_unstable();
    assert_eq!(received, [id(1), id(2), id(3)]);
}

/// On the happy path what was handed over first of a key arrives first, within a batch and from batch to batch.
pub async fn events_of_one_key_arrive_in_their_order(harness: &dyn SinkHarness) {
    look!(harness);
    for start in [1, 31, 61] {
        let batch: Vec<Entry> = (start..start + 30).map(|n| entry(n, "{}")).collect();
        all_confirmed(&deliver(harness, &batch).await);
    }
    let mut by_key: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for received in harness.received().await {
        by_key.entry(received.key).or_default().push(received.event_id);
    }
    assert_eq!(by_key.len(), 3);
    for (key, ids) in by_key {
        assert_eq!(ids.len(), 30, "{key:?}");
        assert!(ids.is_sorted(), "{key:?}: {ids:?}");
    }
}
