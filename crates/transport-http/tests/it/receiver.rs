//! What a receiver takes, and what it answers to everything else.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::post;
use pillarbox_core::port::Clock as _;
use pillarbox_core::{Event, Headers, Hlc, HybridClock};
use pillarbox_host::{SystemClock, process_clock};
use pillarbox_transport_http::{HttpSink, Receiver, VerifiedEvent, Verifier};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::harness::{
    OTHER_SECRET, PATIENCE, SECRET, Seen, Server, deliver, entry, entry_of, private, secret, shown, talk,
};

async fn take(VerifiedEvent(event): VerifiedEvent) -> String {
    format!("took {}", event.event_id)
}

fn receiver() -> Receiver {
    Receiver::new(Verifier::new([secret(SECRET)]).unwrap())
}

async fn service(receiver: Receiver) -> Server {
    Server::routing(Router::new().route("/hooks", post(take)).with_state(receiver)).await
}

/// A request as our own sink sends it, to be spoilt.
async fn signed() -> Seen {
    let server = Server::status(200).await;
    let sink = HttpSink::with_options(private(&server.url()).secret(secret(SECRET))).unwrap();
    deliver(&sink, &[entry(1)]).await;
    let mut seen = server.seen().remove(0);
    seen.headers.remove("host");
    seen.headers.remove("content-length");
    seen
}

fn text(seen: &Seen, framing: &str) -> Vec<u8> {
    let mut request =
        format!("POST /hooks HTTP/1.1\r\nhost: h\r\nconnection: close\r\n{framing}").into_bytes();
    for (name, value) in &seen.headers {
        request.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    request.extend(b"\r\n");
    request
}

async fn sent(server: &Server, seen: &Seen) -> String {
    let mut request = text(seen, &format!("content-length: {}\r\n", seen.body.len()));
    request.extend_from_slice(&seen.body);
    talk(server.address, &request).await
}

/// Spoils a signed request, and checks what is answered.
async fn refused(spoil: impl FnOnce(&mut Seen), status: u16, with: &str) {
    let mut seen = signed().await;
    spoil(&mut seen);
    let answer = sent(&service(receiver()).await, &seen).await;
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    assert!(answer.contains(with) && !answer.contains("canary"), "{answer}");
}

fn put(seen: &mut Seen, name: &'static str, value: &str) {
    seen.headers.insert(name, value.parse().unwrap());
}

/// Signs it again with our key, as of this many seconds ago: the envelope is wrong, the signature is not.
async fn resigned(seen: &mut Seen, seconds_ago: i64) {
    let at = SystemClock.now().as_micros() / 1_000_000 - seconds_ago;
    let id = seen.headers["webhook-id"].to_str().unwrap().to_owned();
    let body = String::from_utf8(seen.body.to_vec()).unwrap();
    let question =
        serde_json::json!({"do": "sign", "secret": SECRET, "id": id, "timestamp": at, "body": body});
    let signed = super::python::ask(question).await;
    put(seen, "webhook-timestamp", &at.to_string());
    put(seen, "webhook-signature", signed["signature"].as_str().unwrap());
}

#[tokio::test]
async fn what_is_signed_is_taken() {
    let answer = sent(&service(receiver()).await, &signed().await).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("took 01900000"), "{answer}");
}

#[tokio::test]
async fn what_is_staged_after_an_event_was_received_is_stamped_above_it() {
    let mut seen = signed().await;
    let clock = Arc::new(HybridClock::new(Arc::new(SystemClock), Duration::from_secs(60)));
    let ahead = |millis: i64| Hlc::from_raw(clock.now().raw() + (millis << 16)).unwrap();
    let (near, far) = (ahead(30_000), ahead(3_600_000));
    let mut receive = |receiver: Receiver, stamp: Hlc| {
        put(&mut seen, "ce-pillarboxhlc", &stamp.to_string());
        receiver.receive(&seen.headers, seen.body.to_vec()).unwrap()
    };
    assert_eq!(receive(receiver().clock(Arc::clone(&clock)), far).hlc, Some(far));
    assert!(clock.now() < near, "a stamp from too far ahead is refused, and its event is taken");
    receive(receiver().clock(Arc::clone(&clock)), near);
    assert!(clock.now() > near);
    receive(receiver(), near);
    assert!(process_clock().now() > near, "by default it is the clock of the outbox");
}

#[tokio::test]
async fn what_is_not_signed_is_refused() {
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        refused(|seen| drop(seen.headers.remove(name)), 401, name).await;
    }
}

#[tokio::test]
async fn what_is_signed_with_another_key_is_refused() {
    let server = service(receiver()).await;
    let sink = HttpSink::with_options(private(&server.url()).secret(secret(OTHER_SECRET))).unwrap();
    assert_eq!(shown(&deliver(&sink, &[entry(1)]).await[0]), "down http_401");
}

#[tokio::test]
async fn a_changed_body_is_refused() {
    refused(|seen| seen.body = "{\"n\":2}".into(), 401, "no signature matches").await;
}

#[tokio::test]
async fn a_replay_of_an_old_request_and_one_from_the_future_are_refused() {
    let server = service(receiver()).await;
    for (seconds_ago, with) in [(3600, "too old"), (-3600, "future")] {
        let mut seen = signed().await;
        resigned(&mut seen, seconds_ago).await;
        let answer = sent(&server, &seen).await;
        assert!(answer.starts_with("HTTP/1.1 401 ") && answer.contains(with), "{answer}");
    }
}

#[tokio::test]
async fn an_old_request_with_a_new_time_is_refused() {
    let now = SystemClock.now().as_micros() / 1_000_000;
    refused(|seen| put(seen, "webhook-timestamp", &(now + 1).to_string()), 401, "no signature matches").await;
}

#[tokio::test]
async fn an_id_that_was_not_signed_is_refused() {
    let other = super::harness::id(2).to_string();
    refused(|seen| put(seen, "ce-id", &other), 400, "webhook-id").await;
}

#[tokio::test]
async fn what_is_signed_and_no_event_is_refused_by_name() {
    refused(|seen| drop(seen.headers.remove("ce-id")), 400, "id is missing").await;
    refused(|seen| drop(seen.headers.remove("ce-type")), 400, "type is missing").await;
    refused(|seen| drop(seen.headers.remove("ce-specversion")), 400, "specversion").await;
    refused(|seen| put(seen, "ce-time", "canary"), 400, "time").await;
    refused(|seen| put(seen, "ce-source", "%ffcanary"), 400, "ce-source").await;
    refused(|seen| put(seen, "content-type", "application/cloudevents+json"), 415, "binary mode").await;
}

#[tokio::test]
async fn an_id_that_is_not_ours_is_refused() {
    let mut seen = signed().await;
    put(&mut seen, "webhook-id", "msg_1");
    put(&mut seen, "ce-id", "msg_1");
    resigned(&mut seen, 0).await;
    let answer = sent(&service(receiver()).await, &seen).await;
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("not a UUID"), "{answer}");
}

#[tokio::test]
async fn a_flood_of_headers_is_refused() {
    let flood = |seen: &mut Seen, count: usize| {
        for n in 0..count {
            seen.headers
                .insert(format!("ce-x{n}").parse::<http::HeaderName>().unwrap(), "x".parse().unwrap());
        }
    };
    refused(|seen| flood(seen, 70), 431, "headers").await;
    refused(|seen| put(seen, "ce-x", &"x".repeat(5000)), 431, "header").await;
    // This many do not even reach us.
    refused(|seen| flood(seen, 1000), 431, "").await;
    let many: Headers = (0..100).map(|n| (format!("X-{n}"), String::new())).collect();
    let many = serde_json::to_string(&many).unwrap().replace('"', "%22");
    refused(|seen| put(seen, "ce-pillarboxheaders", &many), 431, "headers").await;
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_whether_it_says_so_or_not() {
    let server = service(receiver().body_bytes_max(100)).await;
    let mut seen = signed().await;
    seen.body = vec![b'x'; 101].into();
    let answer = sent(&server, &seen).await;
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("100 bytes"), "{answer}");
    let mut chunked = text(&seen, "transfer-encoding: chunked\r\n");
    chunked.extend([b"65\r\n".as_slice(), &seen.body, b"\r\n0\r\n\r\n"].concat());
    let answer = talk(server.address, &chunked).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    let sink = HttpSink::with_options(private(&server.url()).secret(secret(SECRET))).unwrap();
    let outcomes = deliver(&sink, &[entry_of(1, Event::new("t", vec![b'x'; 101])), entry(2)]).await;
    assert_eq!(outcomes.iter().map(shown).collect::<Vec<_>>(), ["rejected too_large", "confirmed"]);
}

#[tokio::test]
async fn a_body_that_does_not_come_is_given_up() {
    let server = service(receiver().body_timeout(Duration::from_millis(50))).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(&text(&signed().await, "content-length: 10\r\n")).await.unwrap();
    let mut answer = [0; 13];
    tokio::time::timeout(PATIENCE, stream.read_exact(&mut answer)).await.expect("no answer").unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408 ");
}

#[tokio::test]
async fn headers_of_every_name_arrive_as_they_were_staged() {
    let event = Event::new("t", "").header("X-Shop", "n\u{f6}rth \"1\"").header("shop", "100%");
    let server = Server::status(200).await;
    let sink = HttpSink::with_options(private(&server.url()).secret(secret(SECRET))).unwrap();
    deliver(&sink, &[entry_of(1, event)]).await;
    let seen = server.seen().remove(0);
    let received = receiver().receive(&seen.headers, seen.body.into()).unwrap();
    let wanted = [("X-Shop", "n\u{f6}rth \"1\""), ("shop", "100%")];
    assert_eq!(received.headers, wanted.map(|(name, value)| (name.into(), value.into())).into());
}
