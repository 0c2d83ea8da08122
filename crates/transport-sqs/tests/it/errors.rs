//! The table of errors, row by row, provoked on a real server.

use std::io::{Read, Write};

use aws_sdk_sqs::types::QueueAttributeName;
use pillarbox_conformance::delivery::{assert_outcome, deliver, deliver_one, down, entry, fresh, rejected};
use pillarbox_core::port::Source;
use pillarbox_core::{ErrorKind, Event, Outcome};
use pillarbox_transport_sqs::{SqsSink, SqsSource};

use crate::harness::{OwnQueue, SERVER, create, variable};

fn order() -> pillarbox_core::Entry {
    entry(Event::new("order.placed", "{}"))
}

fn of(bytes: usize) -> pillarbox_core::Entry {
    entry(Event::new("order.placed", format!("\"{}\"", "x".repeat(bytes))).key("a"))
}

#[tokio::test]
async fn a_missing_queue_is_down_and_named() {
    let (server, name) = (variable(SERVER), fresh("missing"));
    let url = format!("sqs://eu-west-1/{name}?endpoint={server}");
    let sink = SqsSink::new(&url).unwrap();
    let outcome = deliver_one(&sink, &order()).await;
    let failure = assert_outcome(&outcome, "down/queue_missing");
    assert!(failure.text().contains(&name) && failure.text().contains(&server), "{failure}");
    let error = SqsSource::new(&url).unwrap().subscribe().await.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");

    // It is there in another region only.
    let queue = OwnQueue::standard().await;
    let elsewhere = queue.at("").replace("eu-west-1", "eu-west-2");
    let outcome = deliver_one(&SqsSink::new(&elsewhere).unwrap(), &order()).await;
    assert!(assert_outcome(&outcome, "down/queue_missing").text().contains("region"), "{outcome:?}");
}

#[tokio::test]
async fn a_queue_that_is_deleted_is_down_and_used_again_when_it_is_there() {
    let queue = OwnQueue::standard().await;
    let sink = SqsSink::new(&queue.at("")).unwrap();
    assert_eq!(deliver_one(&sink, &order()).await, Outcome::Confirmed);
    queue.client.delete_queue().queue_url(queue.url()).send().await.unwrap();
    assert_outcome(&deliver_one(&sink, &order()).await, "down/queue_missing");
    queue.again().await;
    assert_eq!(deliver_one(&sink, &order()).await, Outcome::Confirmed);
}

#[tokio::test]
async fn one_of_many_queues_that_is_missing_holds_up_no_other() {
    let server = variable(SERVER);
    let queue = OwnQueue::standard().await;
    let url = format!("sqs://eu-west-1/{}{{key}}?endpoint={server}", queue.name);
    create(&queue.client, &format!("{}-b", queue.name), &[]).await;
    let keyed = |key: &str| entry(Event::new("order.placed", "{}").key(key));
    let batch = [keyed("-missing"), keyed("-b"), order(), keyed("-missing")];
    let outcomes = deliver(&SqsSink::new(&url).unwrap(), &batch).await;
    for missing in [0, 3] {
        assert!(matches!(outcomes[missing], Outcome::Busy { .. }), "{:?}", outcomes[missing]);
    }
    assert_eq!((&outcomes[1], &outcomes[2]), (&Outcome::Confirmed, &Outcome::Confirmed));
    let long = deliver_one(&SqsSink::new(&url).unwrap(), &keyed(&"k".repeat(100))).await;
    assert_eq!(rejected(&long).code(), "unroutable");
}

#[tokio::test]
async fn a_message_over_the_limit_of_the_settings_or_of_the_queue_is_rejected() {
    let queue = OwnQueue::standard().await;
    let sink = SqsSink::new(&queue.at("message_bytes_max=4096")).unwrap();
    let outcomes = deliver(&sink, &[of(10), of(5000), of(10)]).await;
    let failure = rejected(&outcomes[1]);
    assert!(
        failure.code() == "too_large" && failure.text().contains("message_bytes_max is 4096"),
        "{failure}"
    );
    assert_eq!((&outcomes[0], &outcomes[2]), (&Outcome::Confirmed, &Outcome::Confirmed));

    let asking = queue.client.set_queue_attributes().queue_url(queue.url());
    asking.attributes(QueueAttributeName::MaximumMessageSize, "2048").send().await.unwrap();
    let outcomes = deliver(&SqsSink::new(&queue.at("")).unwrap(), &[of(10), of(5000), of(10)]).await;
    assert!(matches!(outcomes[1], Outcome::Rejected(_)), "{:?}", outcomes[1]);
    assert_eq!((&outcomes[0], &outcomes[2]), (&Outcome::Confirmed, &Outcome::Confirmed));
}

#[tokio::test]
async fn a_profile_that_is_not_there_is_down_and_named_and_no_secret_is_told() {
    let secret = std::env::var("AWS_SECRET_ACCESS_KEY").expect("set by the services");
    let queue = OwnQueue::standard().await;
    let url = queue.at("profile=nobody-has-it");
    let sink = SqsSink::new(&url).unwrap();
    let outcome = deliver_one(&sink, &order()).await;
    assert!(assert_outcome(&outcome, "down/credentials").text().contains("nobody-has-it"), "{outcome:?}");
    let error = SqsSource::new(&url).unwrap().subscribe().await.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    let missing = SqsSink::new(&queue.at("").replace(&queue.name, "missing")).unwrap();
    let missing = deliver_one(&missing, &order()).await;
    let options = pillarbox_transport_sqs::Options::of_sink(&url).unwrap();
    let told = format!("{outcome:?} {error:?} {missing:?} {options:?}");
    assert!(!told.contains(&secret), "a secret is told");
}

#[tokio::test]
async fn a_port_that_does_not_speak_sqs_or_tls_is_down() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ =
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello");
        }
    });
    let sink = |scheme: &str, port: u16| {
        SqsSink::new(&format!("sqs://eu-west-1/orders?endpoint={scheme}://127.0.0.1:{port}")).unwrap()
    };
    let outcome = deliver_one(&sink("http", port), &order()).await;
    assert!(
        down(&outcome).text().contains("endpoint=") && down(&outcome).text().contains(&port.to_string()),
        "{outcome:?}"
    );
    assert_outcome(&deliver_one(&sink("https", port), &order()).await, "down/tls");
    let outcome = deliver_one(&sink("http", 1), &order()).await;
    assert!(assert_outcome(&outcome, "down/unreachable").text().contains("endpoint="), "{outcome:?}");
}
