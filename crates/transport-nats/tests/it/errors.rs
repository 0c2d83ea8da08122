//! The table of errors, row by row, provoked on a real server.

use async_nats::jetstream::stream::{Config, DiscardPolicy};
use pillarbox_conformance::delivery::{busy, deliver, deliver_one, down, entries, entry, fresh, rejected};
use pillarbox_core::port::Sink;
use pillarbox_core::{Event, Outcome};
use pillarbox_transport_nats::NatsSink;

use crate::harness::{DEBIAN, JETSTREAM, LATEST, OwnStream, Server, variable};

const USERS: &str = "jetstream { store_dir: \"DATA\" }
    authorization { users: [
      { user: admin, password: admin }
      { user: app, password: secret, permissions: { publish: { deny: [\"*.denied\", \"$JS.API.STREAM.INFO.>\"] } } }
    ] }";

fn order() -> pillarbox_core::Entry {
    entry(Event::new("order.placed", "{}"))
}

#[tokio::test]
async fn a_wrong_password_is_down_and_names_the_setting() {
    let server = Server::start(USERS).await;
    for login in ["app:wrong@", "nobody:x@", "token@", ""] {
        let sink = NatsSink::new(&format!("nats://{login}127.0.0.1:{}/orders", server.port())).unwrap();
        let outcome = deliver_one(&sink, &order()).await;
        assert_eq!(down(&outcome).code(), "denied", "{login}");
        assert!(down(&outcome).text().contains("user and password"), "{outcome:?}");
    }
}

#[tokio::test]
async fn a_missing_right_is_down_and_names_the_subject() {
    let server = Server::start(USERS).await;
    let admin = format!("nats://admin:admin@127.0.0.1:{}", server.port());
    let client = async_nats::ConnectOptions::with_user_and_password("admin".into(), "admin".into());
    let context = async_nats::jetstream::new(client.connect(server.url()).await.unwrap());
    let config = Config { name: "all".into(), subjects: vec!["orders.>".into()], ..Config::default() };
    context.create_stream(config).await.unwrap();
    let app =
        NatsSink::new(&format!("nats://app:secret@127.0.0.1:{}/orders.{{type}}", server.port())).unwrap();
    let batch: Vec<_> = (0..300)
        .map(|n| entry(Event::new(if n % 3 == 0 { "allowed" } else { "denied" }, format!("{n}"))))
        .collect();
    for (n, outcome) in deliver(&app, &batch).await.into_iter().enumerate() {
        if n % 3 == 0 {
            assert_eq!(outcome, Outcome::Confirmed);
        } else {
            assert_eq!(down(&outcome).code(), "denied");
            assert!(down(&outcome).text().contains("orders.denied"), "{outcome:?}");
        }
    }
    let admin = NatsSink::new(&format!("{admin}/orders.{{type}}")).unwrap();
    assert_eq!(deliver_one(&admin, &batch[1]).await, Outcome::Confirmed);
}

#[tokio::test]
async fn no_stream_for_the_subject_is_down_and_names_it() {
    for server in [DEBIAN, LATEST] {
        let subject = fresh("nobody");
        let sink = NatsSink::new(&format!("{}/{subject}", variable(server))).unwrap();
        let outcome = deliver_one(&sink, &order()).await;
        assert_eq!(down(&outcome).code(), "no_stream");
        assert!(down(&outcome).text().contains(&subject), "{outcome:?}");
    }
}

#[tokio::test]
async fn jetstream_that_is_off_is_down() {
    let server = Server::start("").await;
    let sink = NatsSink::new(&format!("{}/orders", server.url())).unwrap();
    assert_eq!(down(&deliver_one(&sink, &order()).await).code(), "no_stream");
}

#[tokio::test]
async fn another_stream_than_the_named_one_is_down() {
    let place = OwnStream::new(DEBIAN).await;
    let right = NatsSink::new(&format!("{}?stream={}", place.to(), place.name)).unwrap();
    assert_eq!(deliver_one(&right, &order()).await, Outcome::Confirmed);
    let wrong = NatsSink::new(&format!("{}?stream=another", place.to())).unwrap();
    let outcome = deliver_one(&wrong, &order()).await;
    assert_eq!(down(&outcome).code(), "wrong_stream");
    assert!(down(&outcome).text().contains("stream="), "{outcome:?}");
    assert_eq!(place.stored().await.len(), 1);
}

#[tokio::test]
async fn a_sealed_stream_is_down() {
    let place = OwnStream::new(DEBIAN).await;
    let config = place.stream().await.cached_info().config.clone();
    place.context.update_stream(Config { sealed: true, ..config }).await.unwrap();
    let sink = NatsSink::new(&place.to()).unwrap();
    assert_eq!(down(&deliver_one(&sink, &order()).await).code(), "sealed");
}

#[tokio::test]
async fn a_full_stream_is_busy_until_there_is_room() {
    let full = |config| Config { max_messages: 2, discard: DiscardPolicy::New, ..config };
    let place = OwnStream::with(full).await;
    let sink = NatsSink::new(&place.to()).unwrap();
    let batch = entries(3);
    let outcomes = deliver(&sink, &batch).await;
    assert_eq!(outcomes[..2], [Outcome::Confirmed, Outcome::Confirmed]);
    assert_eq!(busy(&outcomes[2]).code(), "stream_full");
    place.stream().await.purge().await.unwrap();
    assert_eq!(deliver_one(&sink, &batch[2]).await, Outcome::Confirmed);
}

#[tokio::test]
async fn a_full_subject_is_busy_and_the_others_go_on() {
    let full = |config| Config {
        max_messages_per_subject: 1,
        discard: DiscardPolicy::New,
        discard_new_per_subject: true,
        ..config
    };
    let place = OwnStream::with(full).await;
    let sink = NatsSink::new(&place.to()).unwrap();
    let batch = ["a", "a", "b"].map(|event_type| entry(Event::new(event_type, "{}")));
    let outcomes = deliver(&sink, &batch).await;
    assert_eq!((&outcomes[0], &outcomes[2]), (&Outcome::Confirmed, &Outcome::Confirmed));
    assert_eq!(busy(&outcomes[1]).code(), "subject_full");
}

#[tokio::test]
async fn what_the_server_or_the_stream_finds_too_large_is_rejected() {
    let server = Server::start(&format!("{JETSTREAM}\nmax_payload: 64KB")).await;
    let place = OwnStream::on(&server.url(), |config| config).await;
    let sink = NatsSink::new(&place.to()).unwrap();
    assert_eq!(sink.capabilities().payload_bytes_max, Some(1024 * 1024 - 16 * 1024), "not asked yet");
    let sized = |bytes: usize| entry(Event::new("sized", vec![b'x'; bytes]));
    let padded = (0..20).fold(Event::new("padded", vec![b'x'; 40 * 1024]), |event, n| {
        event.header(format!("h{n}"), "y".repeat(4096))
    });
    let batch = [sized(1), sized(64 * 1024), sized(48 * 1024), entry(padded)];
    let outcomes = deliver(&sink, &batch).await;
    assert_eq!(sink.capabilities().payload_bytes_max, Some(48 * 1024), "the server's own limit");
    assert_eq!((&outcomes[0], &outcomes[2]), (&Outcome::Confirmed, &Outcome::Confirmed));
    assert_eq!(rejected(&outcomes[1]).code(), "too_large");
    assert_eq!(rejected(&outcomes[3]).code(), "too_large", "headers count too");

    let small = OwnStream::with(|config| Config { max_message_size: 2000, ..config }).await;
    let sink = NatsSink::new(&small.to()).unwrap();
    let outcomes = deliver(&sink, &[sized(2000), sized(10)]).await;
    assert_eq!(rejected(&outcomes[0]).code(), "too_large");
    assert_eq!(outcomes[1], Outcome::Confirmed);
}

#[tokio::test]
async fn what_is_no_subject_is_rejected_and_the_rest_confirmed() {
    let place = OwnStream::new(DEBIAN).await;
    let sink = NatsSink::new(&format!("{}/{}.{{key}}", place.server, place.name)).unwrap();
    let keyed = |key: &str| entry(Event::new("t", "{}").key(key));
    let batch =
        [keyed("a b"), keyed(">"), keyed("a.*"), keyed("a..b"), entry(Event::new("t", "")), keyed("ok")];
    let outcomes = deliver(&sink, &batch).await;
    for outcome in &outcomes[..5] {
        assert_eq!(rejected(outcome).code(), "unroutable");
    }
    assert_eq!(outcomes[5], Outcome::Confirmed);
}

#[tokio::test]
async fn a_repetition_within_the_window_is_confirmed_and_stored_once() {
    let place = OwnStream::new(LATEST).await;
    let sink = NatsSink::new(&place.to()).unwrap();
    let entry = order();
    let twice = [entry.clone(), entry];
    assert_eq!(deliver(&sink, &twice).await, [Outcome::Confirmed, Outcome::Confirmed]);
    assert_eq!(place.stored().await.len(), 1);
}

#[tokio::test]
async fn tls_with_a_server_that_has_none_is_down() {
    let plain = variable(DEBIAN).replacen("nats://", "tls://", 1);
    let sink = NatsSink::new(&format!("{plain}/orders?connect_timeout=2s")).unwrap();
    let outcome = deliver_one(&sink, &order()).await;
    assert!(matches!(down(&outcome).code(), "tls" | "no_answer" | "unreachable"), "{outcome:?}");
}

#[tokio::test]
async fn credentials_that_cannot_be_read_are_named() {
    let url = format!("{}/orders?credentials=/nowhere/app.creds", variable(DEBIAN));
    let outcome = deliver_one(&NatsSink::new(&url).unwrap(), &order()).await;
    assert!(down(&outcome).text().contains("credentials="), "{outcome:?}");
}
