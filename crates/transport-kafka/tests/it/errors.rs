//! The table of errors, row by row, provoked on the client's fake cluster.

use krafka::error::ErrorCode;
use krafka::testing::{ApiKey, Control, FakeBroker};
use pillarbox_conformance::delivery::{
    all_confirmed, assert_outcome, confirm, deliver, deliver_one, down, entries, entry, fresh, ids, rejected,
};
use pillarbox_core::port::Source;
use pillarbox_core::{Entry, ErrorKind, Event, Outcome};
use pillarbox_transport_kafka::{KafkaSink, KafkaSource};

use crate::harness::{Fake, event_id};

fn order() -> Entry {
    entry(Event::new("order.placed", "{}"))
}

/// The outcome of an entry, if the server answers every record in this way.
async fn told(control: Control, more: &str) -> (Fake, Outcome) {
    let place = Fake::new(1).await;
    place.broker.on(ApiKey::Produce, move |_| control.clone());
    let sink = KafkaSink::new(&format!("{}?{more}", place.url())).unwrap();
    let outcome = deliver_one(&sink, &order()).await;
    (place, outcome)
}

#[tokio::test]
async fn a_wrong_password_is_down_and_names_the_setting() {
    let place = Fake::new(1).await;
    place.broker.require_sasl_plain("app", "secret");
    let url = |login: &str| format!("kafka://{login}{}/{}", place.broker.bootstrap_servers(), place.topic);
    confirm(&KafkaSink::new(&url("app:secret@")).unwrap(), &entries(3)).await;
    for login in ["app:wrong@", "nobody:secret@"] {
        let outcome = deliver_one(&KafkaSink::new(&url(login)).unwrap(), &order()).await;
        assert_eq!(down(&outcome).code(), "denied", "{outcome:?}");
        assert!(down(&outcome).text().contains("user and password"), "{outcome:?}");
        assert!(!down(&outcome).text().contains("wrong"), "{outcome:?}");
        let source = KafkaSource::new(&format!("{}?group=billing", url(login))).unwrap();
        assert_eq!(source.subscribe().await.map(drop).unwrap_err().kind(), ErrorKind::Denied);
    }
}

#[tokio::test]
async fn a_missing_right_is_down_and_names_the_topic() {
    let (place, outcome) = told(Control::Error(ErrorCode::TopicAuthorizationFailed), "").await;
    assert!(assert_outcome(&outcome, "down/denied").text().contains(&place.topic), "{outcome:?}");
}

#[tokio::test]
async fn a_missing_topic_is_down_and_named_and_the_others_are_confirmed() {
    let broker = FakeBroker::start().await.unwrap();
    let there = fresh("there");
    broker.create_topic(&there, 1);
    let sink = KafkaSink::new(&format!("kafka://{}/{{type}}", broker.bootstrap_servers())).unwrap();
    let batch = [&*there, "missing", &*there].map(|topic| entry(Event::new(topic, "{}")));
    let outcomes = deliver(&sink, &batch).await;
    let failure = assert_outcome(&outcomes[1], "down/no_topic");
    assert!(failure.text().contains("\"missing\" does not exist"), "{failure}");
    assert_eq!((&outcomes[0], &outcomes[2]), (&Outcome::Confirmed, &Outcome::Confirmed));
}

#[tokio::test]
async fn a_record_over_the_topics_limit_is_rejected() {
    let (_, outcome) = told(Control::Error(ErrorCode::MessageTooLarge), "").await;
    assert_eq!(rejected(&outcome).code(), "too_large");
    assert!(rejected(&outcome).text().contains("max.message.bytes"), "{outcome:?}");
}

/// Together they are over the limit, and each of them is not.
#[tokio::test]
async fn records_that_are_too_large_together_are_written_apart() {
    let place = Fake::new(1).await;
    // The client halves a batch twice and then gives up: the whole, two halves, four quarters.
    place.broker.on_times(ApiKey::Produce, 7, |_| Control::Error(ErrorCode::MessageTooLarge));
    let batch = entries(20);
    confirm(&KafkaSink::new(&place.url()).unwrap(), &batch).await;
    let mut arrived: Vec<_> = place.records().iter().map(event_id).collect();
    arrived.sort_unstable();
    assert_eq!(arrived, ids(&batch));
}

#[tokio::test]
async fn an_invalid_record_is_rejected_and_an_unexplained_refusal_comes_again() {
    let (_, outcome) = told(Control::Error(ErrorCode::InvalidRecord), "").await;
    assert_outcome(&outcome, "rejected/invalid_record");
    let (_, outcome) = told(Control::Error(ErrorCode::UnknownServerError), "confirm_timeout=1s").await;
    assert!(!matches!(outcome, Outcome::Confirmed | Outcome::Rejected(_)), "{outcome:?}");
}

/// That is no fault of the record, so no attempt is spent.
#[tokio::test]
async fn too_few_replicas_are_down_when_the_time_is_over() {
    let patience = "connect_timeout=500ms&confirm_timeout=1s";
    let (_, outcome) = told(Control::Error(ErrorCode::NotEnoughReplicas), patience).await;
    assert!(assert_outcome(&outcome, "down/no_replicas").text().contains("in sync"), "{outcome:?}");
}

/// The server answers other questions, so it is there.
#[tokio::test]
async fn a_record_that_may_have_been_written_is_unknown() {
    let patience = "connect_timeout=500ms&confirm_timeout=1s";
    let (place, outcome) = told(Control::ApplyThen(Box::new(Control::Silence)), patience).await;
    assert_outcome(&outcome, "unknown/no_answer");
    assert_eq!(place.records().len(), 1, "it was written, and the repetition was not");
}

/// The client repeats it, and the server knows the number of the batch.
#[tokio::test]
async fn a_record_whose_answer_was_lost_is_repeated_and_written_once() {
    let place = Fake::new(1).await;
    place.broker.on_times(ApiKey::Produce, 3, |_| Control::ApplyThen(Box::new(Control::Disconnect)));
    let batch = entries(50);
    confirm(&KafkaSink::new(&place.url()).unwrap(), &batch).await;
    assert_eq!(place.records().iter().map(event_id).collect::<Vec<_>>(), ids(&batch));
}

#[tokio::test]
async fn a_leader_that_moved_is_found() {
    let broker = FakeBroker::start_cluster(3).await.unwrap();
    broker.create_topic("orders", 1);
    let sink = KafkaSink::new(&format!("kafka://{}/orders", broker.bootstrap_servers())).unwrap();
    let batch = entries(30);
    let nodes = broker.with_state(|state| state.brokers.iter().map(|node| node.node_id).collect::<Vec<_>>());
    for (part, leader) in batch.chunks(10).zip(nodes) {
        assert!(broker.set_leader("orders", 0, leader));
        confirm(&sink, part).await;
    }
    let arrived: Vec<_> = broker.all_records("orders").unwrap().iter().map(event_id).collect();
    assert_eq!(arrived, ids(&batch));
}

/// Other servers answer, so the sink waits for the client, and then for another time.
#[tokio::test]
async fn a_leader_that_is_gone_is_down_when_the_time_is_over() {
    let broker = FakeBroker::start_cluster(2).await.unwrap();
    broker.create_topic("orders", 1);
    let url =
        format!("kafka://{}/orders?connect_timeout=500ms&confirm_timeout=1s", broker.bootstrap_servers());
    let sink = KafkaSink::new(&url).unwrap();
    confirm(&sink, &entries(1)).await;
    let leader = broker.with_state(|state| state.partition("orders", 0).unwrap().leader);
    broker.crash(leader);
    let outcome = deliver_one(&sink, &order()).await;
    assert!(matches!(outcome, Outcome::Down(_) | Outcome::Unknown(_)), "{outcome:?}");
    broker.restart(leader);
    all_confirmed(&deliver(&sink, &entries(3)).await);
}

#[tokio::test]
async fn an_entry_whose_topic_would_be_too_long_is_rejected_and_the_rest_confirmed() {
    let place = Fake::new(1).await;
    let of = |key: &str| entry(Event::new("order.placed", "{}").key(key));
    let url = format!("{}/{}{{key}}", place.server(), place.topic);
    place.broker.create_topic(&format!("{}a", place.topic), 1);
    let long = "\u{20ac}".repeat(80);
    let outcomes = deliver(&KafkaSink::new(&url).unwrap(), &[of("a"), of(&long), of("a")]).await;
    assert_eq!(rejected(&outcomes[1]).code(), "unroutable");
    assert_eq!((&outcomes[0], &outcomes[2]), (&Outcome::Confirmed, &Outcome::Confirmed));
}

#[tokio::test]
async fn a_port_that_does_not_speak_kafka_or_tls_is_down() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 512]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let sink = |scheme: &str, port: u16| {
        KafkaSink::new(&format!("{scheme}://127.0.0.1:{port}/orders?connect_timeout=1s")).unwrap()
    };
    let outcome = deliver_one(&sink("kafka", port), &order()).await;
    assert!(down(&outcome).text().contains(&port.to_string()), "{outcome:?}");
    assert_outcome(&deliver_one(&sink("kafkas", port), &order()).await, "down/tls");
    assert_outcome(&deliver_one(&sink("kafka", 1), &order()).await, "down/unreachable");
}
