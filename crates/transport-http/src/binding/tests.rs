use pillarbox_core::{Entry, Event, Received, RouteName};
use pillarbox_testkit::sample_entry;
use proptest::prelude::*;

use super::*;

fn entry(event: Event) -> Entry {
    sample_entry(RouteName::new("orders").unwrap(), event)
}

fn headers_of(event: Event) -> HeaderMap {
    to_headers(&Envelope::of(&entry(event), "shop")).unwrap()
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap())
}

fn read_back(event: Event) -> Received {
    let (attributes, other) = from_headers(&headers_of(event)).unwrap();
    Received::decode(attributes, other, Vec::new()).unwrap()
}

#[test]
fn attributes_become_headers_of_the_binding() {
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let event = Event::new("order.placed", "{}").key("o-1").tenant("t").header("traceparent", trace);
    let headers = headers_of(event.content_type("application/json; charset=utf-8"));
    assert_eq!(text(&headers, "ce-specversion"), Some("1.0"));
    assert_eq!(text(&headers, "ce-type"), Some("order.placed"));
    assert_eq!(text(&headers, "ce-source"), Some("shop"));
    assert_eq!(text(&headers, "ce-subject"), Some("o-1"));
    assert_eq!(text(&headers, "ce-partitionkey"), Some("o-1"));
    assert_eq!(text(&headers, "ce-tenantid"), Some("t"));
    assert_eq!(text(&headers, "ce-traceparent"), Some(trace));
    assert_eq!(text(&headers, "traceparent"), Some(trace));
    assert_eq!(text(&headers, "content-type"), Some("application/json; charset=utf-8"));
    assert_eq!(text(&headers, "ce-datacontenttype"), None);
    assert_eq!(text(&headers, "ce-correlationid"), None, "what is not set is absent");
}

#[test]
fn the_binding_s_own_example_is_encoded_as_it_says() {
    assert_eq!(encode("Euro \u{20ac} \u{1f600}"), "Euro%20%E2%82%AC%20%F0%9F%98%80");
    assert_eq!(decode(b"Euro%20%E2%82%AC%20%F0%9F%98%80").unwrap(), "Euro \u{20ac} \u{1f600}");
    assert_eq!(encode("100% \"a\""), "100%25%20%22a%22");
}

#[test]
fn values_of_older_senders_are_unquoted_and_decoded_once() {
    for (value, wanted) in [
        (r#""a b""#, "a b"),
        (r#""a \"b\" \\c""#, r#"a "b" \c"#),
        ("%2541", "%41"),
        ("%c3%a9", "\u{e9}"),
        ("100%", "100%"),
        ("%zz", "%zz"),
        ("", ""),
        (r#"""#, r#"""#),
    ] {
        assert_eq!(decode(value.as_bytes()).unwrap(), wanted, "{value}");
    }
    assert_eq!(decode(b"%ff"), None);
    assert_eq!(decode(&[0xff]), None);
}

#[test]
fn a_header_that_means_something_to_http_is_never_sent_as_one() {
    let names =
        ["Host", "content-length", "Transfer-Encoding", "webhook-signature", "Cookie", "ce-x", "X-Shop"];
    let event = names.iter().fold(Event::new("t", ""), |event, name| event.header(*name, "canary\r\nx: y"));
    let headers = headers_of(event.clone());
    for name in names {
        assert_eq!(headers.get(name), None, "{name}");
    }
    assert!(headers.values().all(|value| !value.as_bytes().contains(&b'\n')));
    let received = read_back(event);
    for name in names {
        assert_eq!(received.headers[name], "canary\r\nx: y");
    }
}

#[test]
fn reserved_names_win_over_a_caller_s_headers() {
    let event = Event::new("order.placed", "").header("type", "forged").header("ce-type", "forged");
    let event = event.header("pillarboxheaders", "forged").header("shop", "north");
    let headers = headers_of(event.clone());
    assert_eq!(text(&headers, "ce-type"), Some("order.placed"));
    assert_eq!(text(&headers, "ce-shop"), Some("north"));
    let received = read_back(event);
    assert_eq!(received.event_type, "order.placed");
    assert_eq!(received.headers.into_iter().collect::<Vec<_>>(), [("shop".into(), "north".into())]);
}

#[test]
fn a_content_type_that_cannot_be_sent_is_rejected() {
    let outcome =
        to_headers(&Envelope::of(&entry(Event::new("t", "").content_type("\u{e9}")), "s")).unwrap_err();
    assert!(matches!(outcome, Outcome::Rejected(failure) if failure.code() == "invalid_content_type"));
}

fn refused(change: impl FnOnce(&mut HeaderMap), with: &str) {
    let mut headers = headers_of(Event::new("t", ""));
    change(&mut headers);
    let error = from_headers(&headers).unwrap_err().to_string();
    assert!(error.contains(with) && !error.contains("canary"), "{error}");
}

#[test]
fn what_cannot_be_read_is_refused_by_the_header_s_name() {
    refused(
        |headers| assert!(headers.append("ce-type", HeaderValue::from_static("canary"))),
        "ce-type is given twice",
    );
    refused(
        |headers| drop(headers.insert("ce-type", HeaderValue::from_static("%ffcanary"))),
        "ce-type cannot",
    );
    refused(
        |headers| drop(headers.insert("ce-pillarboxheaders", HeaderValue::from_static("[]"))),
        "JSON object",
    );
    for structured in ["application/cloudevents+json", "Application/CloudEvents-Batch+json"] {
        let value = HeaderValue::from_static(structured);
        refused(|headers| drop(headers.insert(CONTENT_TYPE, value)), "binary mode");
    }
}

#[test]
fn every_attribute_of_an_envelope_is_known_by_name() {
    let event =
        Event::new("t", "").key("k").tenant("t").correlation_id("c").causation_id("c").execution_id("e");
    let mut entry = entry(event.header("traceparent", "x"));
    entry.lane = Some(1);
    let envelope = Envelope::of(&entry, "s");
    let mut attributes: Vec<_> = envelope.attributes().into_iter().map(|(name, _)| name).collect();
    attributes.retain(|name| *name != "datacontenttype");
    assert_eq!(attributes.len(), NAMES.len());
    for attribute in attributes {
        let (_, header) = NAMES.iter().find(|(known, _)| *known == attribute).expect(attribute);
        assert_eq!(header.as_str(), format!("ce-{attribute}"));
    }
}

proptest! {
    #[test]
    fn every_text_comes_back_as_it_was(text: String) {
        let encoded = encode(&text);
        prop_assert!(encoded.bytes().all(|byte| (0x21..=0x7e).contains(&byte)));
        prop_assert_eq!(decode(encoded.as_bytes()).unwrap(), text);
    }

    #[test]
    fn no_value_of_a_stranger_panics(value: Vec<u8>) {
        let _ = decode(&value);
    }
}
