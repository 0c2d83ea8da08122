//! What we send is read and verified by libraries that nobody here wrote, and the other way round.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};
use pillarbox_core::port::Clock;
use pillarbox_core::{Entry, Event, Timestamp};
use pillarbox_host::SystemClock;
use pillarbox_transport_http::{HttpSink, Options, Receiver, Unverified, Verifier};
use serde_json::{Value, json};

use super::harness::{OTHER_SECRET, SECRET, Seen, Server, deliver, entry_of, id, private, secret, shown};
use super::python::ask;

async fn sent(entry: Entry, change: impl FnOnce(Options) -> Options) -> Seen {
    let server = Server::status(200).await;
    let sink = HttpSink::with_options(change(private(&server.url()))).unwrap();
    assert_eq!(shown(&deliver(&sink, &[entry]).await[0]), "confirmed");
    server.seen().remove(0)
}

fn question(what: &str, seen: &Seen) -> Value {
    let headers: serde_json::Map<_, _> =
        seen.headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().into())).collect();
    json!({"do": what, "headers": headers, "body": STANDARD.encode(&seen.body)})
}

async fn verified_by_python(seen: &Seen, secret: &str) -> bool {
    let mut question = question("verify", seen);
    question["secret"] = secret.into();
    ask(question).await["verified"].as_bool().unwrap()
}

#[tokio::test]
async fn python_verifies_what_we_sign_with_every_key_and_no_other() {
    let entry = || entry_of(1, Event::new("order.placed", "{\"snow\": \"\u{2603}\"}"));
    let one = sent(entry(), |options| options.secret(secret(SECRET))).await;
    assert!(verified_by_python(&one, SECRET).await);
    assert!(!verified_by_python(&one, OTHER_SECRET).await);
    let both = sent(entry(), |options| options.secret(secret(OTHER_SECRET)).secret(secret(SECRET))).await;
    assert!(verified_by_python(&both, SECRET).await);
    assert!(verified_by_python(&both, OTHER_SECRET).await);
    let changed = Seen { body: "{}".into(), ..one };
    assert!(!verified_by_python(&changed, SECRET).await);
}

struct At(i64);

impl Clock for At {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0 * 1_000_000).unwrap()
    }
}

#[tokio::test]
async fn we_verify_what_python_signs_with_the_same_key_only() {
    let (message, body, at) = ("msg_1", "{\"snow\": \"\u{2603}\"}", 1_763_171_696);
    let signed =
        ask(json!({"do": "sign", "secret": SECRET, "id": message, "timestamp": at, "body": body})).await;
    let headers: HeaderMap = [
        ("webhook-id", message.to_owned()),
        ("webhook-timestamp", at.to_string()),
        ("webhook-signature", signed["signature"].as_str().unwrap().to_owned()),
    ]
    .into_iter()
    .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::try_from(value).unwrap()))
    .collect();
    let verify = |key: &str, body: &str| {
        let verifier = Verifier::new([secret(key)]).unwrap().clock(Arc::new(At(at)));
        verifier.verify(&headers, body.as_bytes()).map(|verified| verified.id.to_owned())
    };
    assert_eq!(verify(SECRET, body), Ok(message.to_owned()));
    assert_eq!(verify(OTHER_SECRET, body), Err(Unverified::NoMatch));
    assert_eq!(verify(SECRET, "{}"), Err(Unverified::NoMatch));
}

#[tokio::test]
async fn python_reads_every_attribute_of_the_event() {
    let occurred: Timestamp = "2026-01-31T12:00:00.5Z".parse().unwrap();
    let event = Event::new("order.placed", "{\"id\": 7}")
        .key("k\u{e9}y \"100%\"")
        .tenant("north")
        .correlation_id("c-1")
        .causation_id("c-0")
        .occurred_at(occurred)
        .header("shop", "Euro \u{20ac} \u{1f600}");
    let seen = sent(entry_of(1, event), |options| options.source("/shop")).await;
    let read = ask(question("read", &seen)).await;
    let attribute = |name: &str| read["attributes"][name].as_str().unwrap().to_owned();
    assert_eq!(attribute("specversion"), "1.0");
    assert_eq!(attribute("id"), id(1).to_string());
    assert_eq!(attribute("type"), "order.placed");
    assert_eq!(attribute("source"), "/shop");
    assert_eq!(attribute("subject"), "k\u{e9}y \"100%\"");
    assert_eq!(attribute("partitionkey"), "k\u{e9}y \"100%\"");
    assert_eq!(attribute("datacontenttype"), "application/json");
    assert_eq!(attribute("tenantid"), "north");
    assert_eq!(attribute("correlationid"), "c-1");
    assert_eq!(attribute("causationid"), "c-0");
    assert_eq!(attribute("shop"), "Euro \u{20ac} \u{1f600}");
    assert_eq!(attribute("time"), "2026-01-31T12:00:00.500000+00:00");
    assert_eq!(read["data"], json!({"id": 7}));
}

#[tokio::test]
async fn python_reads_binary_payloads_byte_for_byte() {
    let payload: Vec<u8> = (0..=255).collect();
    let event = Event::new("blob", payload.clone()).content_type("application/octet-stream");
    let read = ask(question("read", &sent(entry_of(1, event), |options| options).await)).await;
    assert_eq!(read["data_base64"], STANDARD.encode(&payload));
}

#[tokio::test]
async fn we_read_an_event_that_python_wrote() {
    let attributes = json!({
        "id": id(9).to_string(), "type": "order.placed", "source": "/shop", "subject": "k\u{e9}y 100%",
        "datacontenttype": "application/json", "shop": "\u{20ac}",
    });
    let written = ask(json!({"do": "write", "attributes": attributes, "data": {"id": 7}})).await;
    let body = STANDARD.decode(written["body"].as_str().unwrap()).unwrap();
    let at = SystemClock.now().as_micros() / 1_000_000;
    let text = std::str::from_utf8(&body).unwrap();
    let id = id(9).to_string();
    let signed = ask(json!({"do": "sign", "secret": SECRET, "id": id, "timestamp": at, "body": text})).await;
    let mut headers: HeaderMap = written["headers"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.as_str().unwrap().parse().unwrap()))
        .collect();
    headers.insert("webhook-id", id.parse().unwrap());
    headers.insert("webhook-timestamp", at.into());
    headers.insert("webhook-signature", signed["signature"].as_str().unwrap().parse().unwrap());
    let receiver = Receiver::new(Verifier::new([secret(SECRET)]).unwrap());
    let received = receiver.receive(&headers, body).unwrap();
    assert_eq!(received.event_id, super::harness::id(9));
    assert_eq!(received.key.as_deref(), Some("k\u{e9}y 100%"));
    assert_eq!(received.headers["shop"], "\u{20ac}");
    assert_eq!(received.json::<Value>().unwrap().payload, json!({"id": 7}));
}
