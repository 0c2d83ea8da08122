//! What is written is read back, and what does not fit is refused before it is sent.

use lapin::types::FieldArray;
use pillarbox_core::{Event, EventId, Received, RouteName};
use pillarbox_testkit::sample_entry;

use super::*;

const FRAME: usize = 131_072;

fn entry(event: Event) -> Entry {
    sample_entry(RouteName::new("orders").unwrap(), event)
}

fn refused(event: Event, code: &str) {
    match write(&entry(event), "shop", HeaderPrefix::Colon, FRAME) {
        Err(Outcome::Rejected(failure)) => assert_eq!(failure.code(), code),
        other => panic!("{other:?}"),
    }
}

fn headers(pairs: &[(&str, AMQPValue)]) -> BasicProperties {
    let mut table = FieldTable::default();
    for (name, value) in pairs {
        table.insert(ShortString::from(*name), value.clone());
    }
    BasicProperties::default().with_headers(table)
}

#[test]
fn an_envelope_is_read_back_as_it_was() {
    let event = Event::new("order.placed", "{}")
        .id(EventId(uuid::Uuid::from_u128(7)))
        .key("o-1")
        .tenant("north")
        .correlation_id("c-1")
        .header("shop", "7")
        .header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        .header("cloudEvents:id", "forged");
    let entry = entry(event);
    let properties = write(&entry, "/shop", HeaderPrefix::Colon, FRAME).unwrap();
    assert_eq!(properties.message_id().as_ref().unwrap().as_str(), entry.event_id.to_string());
    assert_eq!(properties.kind().as_ref().unwrap().as_str(), "order.placed");
    assert_eq!(properties.content_type().as_ref().unwrap().as_str(), "application/json");
    assert_eq!(*properties.delivery_mode(), Some(2));
    let seconds = u64::try_from(entry.created_at.as_micros()).unwrap() / 1_000_000;
    assert_eq!(*properties.timestamp(), Some(seconds));

    let (attributes, headers) = read(&properties, None);
    let received = Received::decode(attributes, headers, entry.payload.clone()).unwrap();
    assert_eq!(received.event_id, entry.event_id);
    assert_eq!((received.event_type.as_str(), received.source.as_str()), ("order.placed", "/shop"));
    assert_eq!((received.key.as_deref(), received.tenant.as_deref()), (Some("o-1"), Some("north")));
    assert_eq!((received.correlation_id.as_deref(), received.hlc), (Some("c-1"), entry.hlc));
    assert_eq!(received.occurred_at, Some(entry.created_at));
    assert_eq!(received.headers["shop"], "7");
    assert!(received.headers["traceparent"].starts_with("00-0af7"));
    assert_eq!(received.headers.len(), 2, "a header cannot pass for an attribute: {:?}", received.headers);
}

#[test]
fn every_prefix_in_use_is_read_and_only_one_at_a_time() {
    for prefix in HeaderPrefix::ALL.map(HeaderPrefix::as_str) {
        let properties = headers(&[
            (&format!("{prefix}specversion"), text("1.0")),
            (&format!("{prefix}id"), text("x")),
            ("plain", text("y")),
        ]);
        let (attributes, headers) = read(&properties, None);
        assert_eq!(attributes["id"], "x");
        assert_eq!(headers["plain"], "y");
    }
    let both = headers(&[
        ("cloudEvents:specversion", text("1.0")),
        ("cloudEvents:id", text("ours")),
        ("ce-id", text("a header")),
    ]);
    let (attributes, headers) = read(&both, None);
    assert_eq!((attributes["id"].as_str(), headers["ce-id"].as_str()), ("ours", "a header"));
}

#[test]
fn values_of_other_types_become_texts_or_are_left_out() {
    let properties = headers(&[
        ("cloudEvents_specversion", text("1.0")),
        ("cloudEvents_time", AMQPValue::LongLongInt(1_763_171_696_123)),
        ("cloudEvents_flag", AMQPValue::Boolean(true)),
        ("number", AMQPValue::LongInt(-7)),
        ("at", AMQPValue::Timestamp(0)),
        ("bytes", AMQPValue::LongString(vec![0xff].into())),
        ("list", AMQPValue::FieldArray(FieldArray::default())),
    ]);
    let (attributes, headers) = read(&properties, None);
    assert_eq!(attributes["time"], "2025-11-15T01:54:56.123Z");
    assert_eq!(attributes["flag"], "true");
    assert_eq!(headers["number"], "-7");
    assert_eq!(headers["at"], "1970-01-01T00:00:00Z");
    assert_eq!(headers.len(), 2, "{headers:?}");
}

#[test]
fn a_delivery_count_counts_this_time_too() {
    let counted = |value| delivery_count(&headers(&[(DELIVERY_COUNT, value)]));
    assert_eq!(counted(AMQPValue::LongLongInt(0)), Some(1));
    assert_eq!(counted(AMQPValue::LongInt(4)), Some(5));
    assert_eq!(counted(AMQPValue::LongLongInt(-1)), Some(0));
    assert_eq!(counted(AMQPValue::LongLongInt(i64::MAX)), None);
    assert_eq!(counted(text("4")), None);
    assert_eq!(delivery_count(&BasicProperties::default()), None);
}

#[test]
fn what_the_protocol_cannot_carry_is_rejected_by_name() {
    refused(Event::new("t", "").header("é".repeat(200), "x"), "header_name_too_long");
    refused(Event::new("t", "").content_type("é".repeat(200)), "content_type_too_long");
    refused(Event::new("t", "").header("CC", "x"), "reserved_header");
    let many = (0..40).fold(Event::new("t", ""), |event, n| event.header(format!("h{n}"), "x".repeat(4096)));
    refused(many, "headers_too_large");
    assert!(short("routing_key_too_long", "routing key", "x".repeat(256)).is_err());
}

#[test]
fn a_type_too_long_for_its_property_still_travels_as_the_attribute() {
    let event_type = "é".repeat(200);
    let properties =
        write(&entry(Event::new(event_type.clone(), "")), "shop", HeaderPrefix::Colon, FRAME).unwrap();
    assert!(properties.kind().is_none());
    assert_eq!(read(&properties, None).0["type"], event_type);
}

#[test]
fn attributes_are_written_with_the_prefix_of_the_setting_and_read_with_every_known_one() {
    let entry = entry(Event::new("order.placed", "{}").header("ce-id", "forged").header("mine", "1"));
    for prefix in HeaderPrefix::ALL {
        let properties = write(&entry, "shop", prefix, FRAME).unwrap();
        let table = properties.headers().as_ref().unwrap().inner();
        let name = format!("{}type", prefix.as_str());
        assert_eq!(table.get(name.as_str()), Some(&text("order.placed")));
        let others = HeaderPrefix::ALL.into_iter().filter(|other| *other != prefix);
        for other in others {
            assert!(!table.keys().any(|name| name.as_str().starts_with(other.as_str())), "{table:?}");
            assert_eq!(read(&properties, Some(other)).0.get("id"), None, "only what is asked for");
        }
        for expected in [None, Some(prefix)] {
            let (attributes, headers) = read(&properties, expected);
            assert_eq!(attributes["id"], entry.event_id.to_string());
            assert_eq!(headers.keys().collect::<Vec<_>>(), ["mine"]);
        }
    }
}
