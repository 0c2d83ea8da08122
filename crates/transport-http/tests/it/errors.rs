//! The table of `error.rs`, one test per row, against servers that really answer so, or do not answer.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::IntoResponse as _;
use pillarbox_core::{Event, Outcome};
use pillarbox_transport_http::{HttpSink, Options, Resolver};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::harness::{
    Names, PATIENCE, RawServer, Server, deliver, deliver_one, entry, entry_of, private, read_request, shown,
    sink, text_of,
};

/// A server that answers with this status, and what that means.
async fn row(status: u16, wanted: &str) {
    let server = Server::status(status).await;
    assert_eq!(deliver_one(&sink(&server.url())).await, wanted, "{status}");
    assert_eq!(server.seen().len(), 1);
}

macro_rules! rows {
    ($($name:ident: $status:literal => $wanted:literal;)*) => {
        $(#[tokio::test]
        async fn $name() {
            row($status, $wanted).await;
        })*
    };
}

rows! {
    ok_is_confirmed: 200 => "confirmed";
    created_is_confirmed: 201 => "confirmed";
    accepted_is_confirmed: 202 => "confirmed";
    no_content_is_confirmed: 204 => "confirmed";
    moved_permanently_fails: 301 => "failed redirect";
    not_modified_fails: 304 => "failed redirect";
    permanent_redirect_fails: 308 => "failed redirect";
    bad_request_is_rejected: 400 => "rejected http_400";
    unauthorized_is_down: 401 => "down http_401";
    forbidden_is_down: 403 => "down http_403";
    not_found_is_down: 404 => "down http_404";
    method_not_allowed_is_rejected: 405 => "rejected http_405";
    request_timeout_fails: 408 => "failed http_408";
    conflict_is_rejected: 409 => "rejected http_409";
    gone_is_down: 410 => "down gone";
    content_too_large_is_rejected: 413 => "rejected too_large";
    unsupported_media_type_is_rejected: 415 => "rejected http_415";
    unprocessable_is_rejected: 422 => "rejected http_422";
    too_early_fails: 425 => "failed http_425";
    too_many_requests_is_busy: 429 => "busy http_429";
    headers_too_large_is_rejected: 431 => "rejected http_431";
    internal_server_error_fails: 500 => "failed http_500";
    not_implemented_fails: 501 => "failed http_501";
    bad_gateway_is_busy: 502 => "busy http_502";
    service_unavailable_is_busy: 503 => "busy http_503";
    gateway_timeout_is_busy: 504 => "busy http_504";
}

#[tokio::test]
async fn switching_protocols_fails() {
    let server = RawServer::start(async |mut stream| {
        read_request(&mut stream).await.unwrap();
        let answer = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n";
        stream.write_all(answer).await.unwrap();
    })
    .await;
    assert_eq!(deliver_one(&sink(&server.url())).await, "failed http_101");
}

#[tokio::test]
async fn retry_after_is_honoured_in_both_spellings_and_capped() {
    for (status, value, wanted) in [
        (429, "7", "busy http_429 until 7s"),
        (503, "7", "busy http_503 until 7s"),
        (503, "86400", "busy http_503 until 3600s"),
        (503, "Fri, 31 Dec 9999 23:59:59 GMT", "busy http_503 until 3600s"),
        (503, "Thu, 01 Jan 1970 00:00:00 GMT", "busy http_503"),
        (503, "later", "busy http_503"),
        (500, "7", "failed http_500 after 7s"),
        (400, "7", "rejected http_400"),
    ] {
        let server = Server::answering(move |_| async move {
            let header = (HeaderName::from_static("retry-after"), HeaderValue::from_static(value));
            (StatusCode::from_u16(status).unwrap(), [header]).into_response()
        })
        .await;
        assert_eq!(deliver_one(&sink(&server.url())).await, wanted, "{value}");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = Server::status(200).await;
    let location = HeaderValue::try_from(elsewhere.url()).unwrap();
    let server = Server::answering(move |_| {
        let location = location.clone();
        async move { (StatusCode::TEMPORARY_REDIRECT, [("location", location)]).into_response() }
    })
    .await;
    assert_eq!(deliver_one(&sink(&server.url())).await, "failed redirect");
    assert!(elsewhere.seen().is_empty());
}

#[tokio::test]
async fn after_410_nothing_more_is_sent() {
    let server = Server::status(410).await;
    let sink = sink(&server.url());
    for _ in 0..3 {
        assert_eq!(deliver_one(&sink).await, "down gone");
    }
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn what_fills_places_in_the_path_is_refused_for_itself() {
    for (status, wanted) in
        [(401, "failed http_401"), (404, "failed http_404"), (410, "rejected gone"), (503, "failed http_503")]
    {
        let server = Server::answering(move |seen| async move {
            let status = if seen.target == "/unknown" { status } else { 200 };
            StatusCode::from_u16(status).unwrap().into_response()
        })
        .await;
        let sink = sink(&format!("http://{}/{{type}}", server.address));
        let batch = [entry_of(1, Event::new("unknown", "")), entry_of(2, Event::new("known", ""))];
        let outcomes: Vec<_> = deliver(&sink, &batch).await.iter().map(shown).collect();
        assert_eq!(outcomes, [wanted, "confirmed"]);
    }
}

#[tokio::test]
async fn one_poisonous_message_of_a_working_endpoint_does_not_take_it_down() {
    let server = Server::answering(async |seen| {
        let poison = seen.body == "poison";
        if poison { StatusCode::FORBIDDEN } else { StatusCode::OK }.into_response()
    })
    .await;
    let sink = HttpSink::with_options(private(&server.url()).concurrency(1)).unwrap();
    let batch =
        [entry(1), entry_of(2, Event::new("t", "poison")), entry(3), entry_of(4, Event::new("t", "poison"))];
    let outcomes: Vec<_> = deliver(&sink, &batch).await.iter().map(shown).collect();
    assert_eq!(outcomes, ["confirmed", "failed http_403", "confirmed", "failed http_403"]);
}

#[tokio::test]
async fn an_endpoint_that_begins_to_refuse_everything_goes_down_at_the_second_refusal() {
    let server = Server::answering(async |seen| {
        if seen.body == r#"{"n":1}"# { StatusCode::OK } else { StatusCode::NOT_FOUND }.into_response()
    })
    .await;
    let sink = HttpSink::with_options(private(&server.url()).concurrency(1)).unwrap();
    let outcomes: Vec<_> =
        deliver(&sink, &(1..=5).map(entry).collect::<Vec<_>>()).await.iter().map(shown).collect();
    assert_eq!(outcomes, ["confirmed", "failed http_404", "down http_404", "down http_404", "down http_404"]);
    assert_eq!(server.seen().len(), 3, "what was not tried by then is not tried");
}

#[tokio::test]
async fn one_message_that_crashes_the_service_dies_of_its_attempts_and_holds_up_nobody() {
    let server = Server::answering(async |seen| {
        if seen.body == "poison" { StatusCode::BAD_GATEWAY } else { StatusCode::OK }.into_response()
    })
    .await;
    let sink = HttpSink::with_options(private(&server.url()).concurrency(1)).unwrap();
    let batch = [entry(1), entry_of(2, Event::new("t", "poison")), entry(3)];
    let outcomes: Vec<_> = deliver(&sink, &batch).await.iter().map(shown).collect();
    assert_eq!(outcomes, ["confirmed", "failed http_502", "confirmed"]);
}

#[tokio::test]
async fn an_endpoint_that_asks_to_be_left_alone_is_left_alone() {
    let server = Server::status(429).await;
    let sink = HttpSink::with_options(private(&server.url()).concurrency(1)).unwrap();
    let outcomes = deliver(&sink, &(1..=500).map(entry).collect::<Vec<_>>()).await;
    assert!(outcomes.iter().all(|outcome| shown(outcome) == "busy http_429"));
    assert_eq!(server.seen().len(), 33, "a few may be all that it refuses; the rest is not tried");
}

#[tokio::test]
async fn a_message_behind_one_that_is_refused_is_tried_as_well() {
    let server = Server::answering(async |seen| {
        if seen.body == "poison" { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK }.into_response()
    })
    .await;
    let sink = HttpSink::with_options(private(&server.url()).concurrency(1)).unwrap();
    let batch = [entry_of(1, Event::new("t", "poison")), entry(2)];
    let outcomes: Vec<_> = deliver(&sink, &batch).await.iter().map(shown).collect();
    assert_eq!(outcomes, ["busy http_503", "confirmed"]);
}

#[tokio::test]
async fn a_port_that_nobody_listens_on_is_down() {
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let outcomes = deliver(&sink(&format!("http://{address}/canary?canary")), &[entry(1)]).await;
    assert_eq!(shown(&outcomes[0]), "down refused");
    let text = text_of(&outcomes[0]);
    assert!(text.contains(&address.to_string()) && !text.contains("canary"), "{text}");
}

struct Broken;

#[async_trait]
impl Resolver for Broken {
    async fn resolve(&self, host: &str) -> std::io::Result<Vec<std::net::IpAddr>> {
        match host {
            "hangs.example.org" => std::future::pending().await,
            "empty.example.org" => Ok(vec![]),
            _ => Err(std::io::Error::other("no such host")),
        }
    }
}

fn named(host: &str, connect_timeout: Duration) -> HttpSink {
    let options = private(&format!("http://{host}/")).connect_timeout(connect_timeout);
    HttpSink::with_options(options.resolver(Arc::new(Broken))).unwrap()
}

#[tokio::test]
async fn a_name_that_is_not_known_or_has_no_address_is_down() {
    for host in ["unknown.example.org", "empty.example.org"] {
        assert_eq!(deliver_one(&named(host, PATIENCE)).await, "down dns");
    }
}

#[tokio::test]
async fn a_name_server_that_does_not_answer_is_down_in_time() {
    let sink = named("hangs.example.org", Duration::from_millis(50));
    assert_eq!(deliver_one(&sink).await, "down connect_timeout");
}

#[tokio::test]
async fn a_server_that_accepts_and_does_not_speak_tls_is_down_in_time() {
    let server = RawServer::start(async |mut stream| {
        let _ = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let options = private(&server.url().replace("http:", "https:"));
    let sink = HttpSink::with_options(options.connect_timeout(Duration::from_millis(200))).unwrap();
    assert_eq!(deliver_one(&sink).await, "down connect_timeout");
}

#[tokio::test]
async fn a_server_that_speaks_no_tls_is_down() {
    let server = Server::status(200).await;
    let sink = HttpSink::with_options(private(&server.url().replace("http:", "https:"))).unwrap();
    assert_eq!(deliver_one(&sink).await, "down tls");
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn an_answer_that_does_not_come_is_unknown_in_time() {
    let server =
        RawServer::start(async |mut stream| while read_request(&mut stream).await.is_some() {}).await;
    let sink = HttpSink::with_options(private(&server.url()).timeout(Duration::from_millis(100))).unwrap();
    assert_eq!(deliver_one(&sink).await, "unknown timeout");
}

#[tokio::test]
async fn an_answer_that_comes_byte_by_byte_is_unknown_in_time() {
    let server = RawServer::start(async |mut stream| {
        read_request(&mut stream).await.unwrap();
        let mut answer = b"HTTP/1.1 200 OK\r\nx: ".to_vec();
        while stream.write_all(&answer).await.is_ok() {
            answer = b"x".to_vec();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let sink = HttpSink::with_options(private(&server.url()).timeout(Duration::from_millis(200))).unwrap();
    assert_eq!(deliver_one(&sink).await, "unknown timeout");
}

#[tokio::test]
async fn a_body_that_comes_byte_by_byte_holds_up_nothing() {
    let server = RawServer::start(async |mut stream| {
        read_request(&mut stream).await.unwrap();
        let mut answer = b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n".to_vec();
        while stream.write_all(&answer).await.is_ok() {
            answer = b"x".to_vec();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(deliver_one(&sink(&server.url())).await, "confirmed");
}

#[tokio::test]
async fn a_connection_that_is_lost_after_the_request_is_unknown() {
    let server = RawServer::start(async |mut stream| {
        read_request(&mut stream).await.unwrap();
    })
    .await;
    assert_eq!(deliver_one(&sink(&server.url())).await, "unknown connection_lost");
}

#[tokio::test]
async fn an_answer_that_is_not_http_is_unknown() {
    let server = RawServer::start(async |mut stream| {
        read_request(&mut stream).await.unwrap();
        let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").await;
    })
    .await;
    assert_eq!(deliver_one(&sink(&server.url())).await, "unknown bad_answer");
}

#[tokio::test]
async fn an_answer_with_an_endless_head_is_unknown() {
    let server = RawServer::start(async |mut stream| {
        read_request(&mut stream).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\n").await.unwrap();
        while stream.write_all(b"x-flood: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n").await.is_ok() {}
    })
    .await;
    assert_eq!(deliver_one(&sink(&server.url())).await, "unknown bad_answer");
}

#[tokio::test]
async fn what_cannot_be_sent_is_rejected_without_a_request() {
    let server = Server::status(200).await;
    let sink = HttpSink::with_options(private(&server.url()).payload_bytes_max(3)).unwrap();
    let batch = [
        entry_of(1, Event::new("t", "1234")),
        entry_of(2, Event::new("t", "").content_type("\u{e9}")),
        entry_of(3, Event::new("t", "123")),
    ];
    let outcomes: Vec<_> = deliver(&sink, &batch).await.iter().map(shown).collect();
    assert_eq!(outcomes, ["rejected too_large", "rejected invalid_content_type", "confirmed"]);
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn down_is_the_outcome_of_the_whole_batch() {
    let names = Names::new(&[&["10.0.0.1"]]);
    let options = Options::of_sink("https://hooks.example.org/").unwrap().resolver(names);
    let sink = HttpSink::with_options(options).unwrap();
    let outcomes = deliver(&sink, &(1..=100).map(entry).collect::<Vec<_>>()).await;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Down(_))));
}
