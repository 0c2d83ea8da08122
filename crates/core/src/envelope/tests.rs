//! What crosses a broker, field by field.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::entry::Fence;
use crate::event::{EventId, Headers};
use crate::hlc::Hlc;
use crate::name::RouteName;
use crate::status::Status;
use crate::time::Timestamp;

const ID: &str = "01932c07-a9f0-7000-8000-000000000001";

fn bare() -> Entry {
    let id = EventId(Uuid::try_parse(ID).unwrap());
    let staged_at = "2026-01-31T12:00:00Z".parse().unwrap();
    Entry {
        payload: br#"{"id":1}"#.to_vec(),
        status: Status::InFlight,
        attempts: 1,
        fence: Fence(3),
        ..Entry::new(7, id, RouteName::new("orders").unwrap(), "order.placed", staged_at)
    }
}

fn with_headers(headers: &[(&str, &str)]) -> Entry {
    Entry { headers: headers.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect(), ..bare() }
}

fn line(entry: &Entry) -> Value {
    let line = Envelope::of(entry, "/shop").to_json_line();
    assert!(!line.contains(&b'\n') && !line.contains(&b'\r'), "{}", String::from_utf8_lossy(&line));
    serde_json::from_slice(&line).unwrap()
}

#[test]
fn what_is_not_set_is_absent() {
    let line = Envelope::of(&bare(), "/shop").to_json_line();
    assert_eq!(
        String::from_utf8(line).unwrap(),
        format!(
            r#"{{"specversion":"1.0","id":"{ID}","source":"/shop","type":"order.placed","time":"2026-01-31T12:00:00Z","#
        ) + &format!(
            r#""partitionkey":"{ID}","datacontenttype":"application/json","pillarboxseq":"7","data":{{"id":1}}}}"#
        )
    );
}

#[test]
fn every_known_context_field_becomes_an_attribute() {
    let occurred_at: Timestamp = "2026-01-30T08:00:00.25Z".parse().unwrap();
    let entry = Entry {
        key: Some("o-1".into()),
        tenant: Some("acme".into()),
        correlation_id: Some("c".into()),
        causation_id: Some("b".into()),
        execution_id: Some("e".into()),
        occurred_at: Some(occurred_at),
        hlc: Some(Hlc::from_raw(255).unwrap()),
        headers: Headers::from([("traceparent".into(), "00-ab-cd-01".into())]),
        lane: Some(4),
        fence: Fence(9),
        ..bare()
    };
    let envelope = Envelope::of(&entry, "/shop");
    let attributes: BTreeMap<_, _> = envelope.attributes().into_iter().collect();
    let expect = BTreeMap::from([
        ("specversion", "1.0"),
        ("id", ID),
        ("source", "/shop"),
        ("type", "order.placed"),
        ("time", "2026-01-30T08:00:00.25Z"),
        ("subject", "o-1"),
        ("partitionkey", "o-1"),
        ("datacontenttype", "application/json"),
        ("traceparent", "00-ab-cd-01"),
        ("correlationid", "c"),
        ("causationid", "b"),
        ("tenantid", "acme"),
        ("executionid", "e"),
        ("pillarboxhlc", "00000000000000ff"),
        ("pillarboxseq", "7"),
        ("pillarboxlane", "orders/4"),
        ("pillarboxfence", "9"),
    ]);
    assert_eq!(attributes.iter().map(|(name, value)| (*name, &**value)).collect::<BTreeMap<_, _>>(), expect);
    assert_eq!(envelope.headers().count(), 0, "the trace context travels once");
    assert_eq!(envelope.data(), entry.payload);
}

#[test]
fn the_transport_key_is_the_ordering_key_or_the_event_id() {
    assert_eq!(line(&bare())["partitionkey"], ID);
    let keyed = Entry { key: Some("o-1".into()), ..bare() };
    assert_eq!(line(&keyed)["partitionkey"], "o-1");
    assert_eq!(line(&keyed)["id"], ID, "the identity never comes from the key");
}

#[test]
fn reserved_names_win_over_caller_headers() {
    let forged: Vec<_> = RESERVED
        .iter()
        .filter(|name| **name != TRACEPARENT)
        .chain(&[
            "pillarboxseq",
            "pillarboxlater",
            "Id",
            "TYPE",
            "ce-id",
            "ce_source",
            "cloudEvents:type",
            "ce-pillarboxhlc",
        ])
        .map(|name| (*name, "forged"))
        .collect();
    let entry = with_headers(&forged);
    assert_eq!(Envelope::of(&entry, "/shop").headers().count(), 0);
    assert_eq!(line(&entry), line(&bare()), "nor does a header stand in for what is not set");
}

#[test]
fn caller_headers_travel_and_none_is_lost() {
    let entry =
        with_headers(&[("shop", "north"), ("tracestate", "a=b"), ("X-Region", "eu\n1"), ("", "empty")]);
    let line = line(&entry);
    assert_eq!((&line["shop"], &line["tracestate"]), (&json!("north"), &json!("a=b")));
    let others: Value = serde_json::from_str(line["pillarboxheaders"].as_str().unwrap()).unwrap();
    assert_eq!(others, json!({"X-Region": "eu\n1", "": "empty"}));
    assert_eq!(Envelope::of(&entry, "/shop").headers().count(), 4);
}

#[test]
fn a_json_payload_is_data_and_anything_else_is_base64() {
    let check = |content_type: &str, payload: &[u8], field: &str, expect: Value| {
        let entry = Entry { content_type: content_type.into(), payload: payload.to_vec(), ..bare() };
        let line = line(&entry);
        assert_eq!(line[field], expect, "{content_type}");
        assert_eq!(line.get("data").is_some(), field == "data");
        assert_eq!(line.get("data_base64").is_some(), field == "data_base64");
    };
    check("application/json", b"null", "data", json!(null));
    check("application/json; charset=utf-8", b"[]", "data", json!([]));
    check("Application/Vnd.Shop+JSON", b" 0 ", "data", json!(0));
    check("application/json", b"{broken", "data_base64", json!("e2Jyb2tlbg=="));
    check("application/json", b"", "data_base64", json!(""));
    check("application/json", b"\"\xff\"", "data_base64", json!("Iv8i"));
    check("text/plain", b"{}", "data_base64", json!("e30="));
    check("application/octet-stream", b"\0\n", "data_base64", json!("AAo="));
}

#[test]
fn a_json_payload_keeps_its_digits_and_texts() {
    let payload =
        "{\n\t\"n\" : 12345678901234567890.10 ,\r\n \"t\": \" a \\\" \\\\\" , \"e\":[ 1E+2 , -0 ]\n}\n";
    let entry = Entry { payload: payload.into(), ..bare() };
    let line = String::from_utf8(Envelope::of(&entry, "/shop").to_json_line()).unwrap();
    let expect = r#""data":{"n":12345678901234567890.10,"t":" a \" \\","e":[1E+2,-0]}}"#;
    assert!(line.ends_with(expect), "{line}");
}

proptest! {
    #[test]
    fn any_entry_is_one_line_of_json_and_nothing_is_lost(
        payload in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            "[\\[\\]{}\",:\\\\ \n\r0-9a-z]{0,40}".prop_map(String::into_bytes),
            any::<String>().prop_map(|text| serde_json::to_vec_pretty(&json!({"a": [text, 1]})).unwrap()),
        ],
        headers in prop::collection::btree_map(prop_oneof!["[a-z0-9]{1,9}", any::<String>()], any::<String>(), 0..5),
        key in prop::option::of(any::<String>()),
        content_type in prop_oneof![Just("application/json".to_owned()), any::<String>()],
        source in any::<String>(),
    ) {
        let entry = Entry { payload, headers, key, content_type, ..bare() };
        let envelope = Envelope::of(&entry, &source);
        let bytes = envelope.to_json_line();
        prop_assert!(!bytes.contains(&b'\n') && !bytes.contains(&b'\r'));
        let line: BTreeMap<String, Value> = serde_json::from_slice(&bytes).unwrap();
        for (name, value) in envelope.attributes() {
            prop_assert_eq!(&line[name], &*value);
        }
        match line.get("data_base64") {
            Some(data) => prop_assert_eq!(&STANDARD.decode(data.as_str().unwrap()).unwrap(), &entry.payload),
            None => prop_assert_eq!(&line["data"], &serde_json::from_slice::<Value>(&entry.payload).unwrap()),
        }
        let others: Headers = line
            .get("pillarboxheaders")
            .map(|text| serde_json::from_str(text.as_str().unwrap()).unwrap())
            .unwrap_or_default();
        for (name, value) in envelope.headers() {
            let carried = line.get(name).and_then(Value::as_str).or(others.get(name).map(String::as_str));
            prop_assert_eq!(carried, Some(value), "{}", name);
        }
    }
}
