//! The table of errors, row by row, provoked on a real server.

use std::path::Path;
use std::process::Command;

use pillarbox_conformance::delivery::{
    all_confirmed, assert_outcome, confirm, deliver, deliver_one, down, entries, entry, fresh, rejected,
};
use pillarbox_core::port::{Sink, Source};
use pillarbox_core::{ErrorKind, Event, Outcome};
use pillarbox_transport_mqtt::{MqttSink, MqttSource};

use crate::harness::{SERVER, Server, variable};

/// A server whose user `app` may publish to `orders/allowed` and to nothing else.
async fn with_users() -> Server {
    let configuration = "allow_anonymous false\npassword_file DATA/passwords\nacl_file DATA/rights";
    Server::with(configuration, |directory: &Path| {
        std::fs::write(directory.join("rights"), "user app\ntopic readwrite orders/allowed\n").unwrap();
        let mut command = Command::new("mosquitto_passwd");
        command.args(["-b", "-c"]).arg(directory.join("passwords")).args(["app", "secret"]);
        assert!(command.status().unwrap().success());
    })
    .await
}

fn order() -> pillarbox_core::Entry {
    entry(Event::new("order.placed", "{}"))
}

#[tokio::test]
async fn a_wrong_password_is_down_and_names_the_setting() {
    let server = with_users().await;
    for login in ["app:wrong@", "nobody:x@", "app@", ""] {
        let url = format!("mqtt://{login}127.0.0.1:{}/orders", server.port());
        let outcome = deliver_one(&MqttSink::new(&url).unwrap(), &order()).await;
        assert_eq!(down(&outcome).code(), "denied", "{login}");
        assert!(down(&outcome).text().contains("user and password"), "{outcome:?}");
        assert!(!down(&outcome).text().contains("wrong"), "{outcome:?}");
        let source = MqttSource::new(&format!("{url}?client_id=c")).unwrap();
        assert_eq!(source.subscribe().await.map(drop).unwrap_err().kind(), ErrorKind::Denied);
    }
}

#[tokio::test]
async fn a_missing_right_is_down_and_names_the_topic() {
    let server = with_users().await;
    for qos in [1, 2] {
        let url = format!("mqtt://app:secret@127.0.0.1:{}/orders/{{type}}?qos={qos}", server.port());
        let batch: Vec<_> = (0..300)
            .map(|n| entry(Event::new(if n % 3 == 0 { "allowed" } else { "denied" }, format!("{n}"))))
            .collect();
        for (n, outcome) in deliver(&MqttSink::new(&url).unwrap(), &batch).await.into_iter().enumerate() {
            if n % 3 == 0 {
                assert_eq!(outcome, Outcome::Confirmed);
            } else {
                assert_eq!(down(&outcome).code(), "denied");
                assert!(down(&outcome).text().contains("orders/denied"), "{outcome:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_topic_that_nobody_has_subscribed_to_is_confirmed() {
    for qos in [1, 2] {
        let url = format!("{}/{}?qos={qos}", variable(SERVER), fresh("nobody"));
        confirm(&MqttSink::new(&url).unwrap(), &entries(3)).await;
    }
}

#[tokio::test]
async fn a_message_over_the_servers_limit_is_rejected_and_the_rest_confirmed() {
    let server = Server::start("allow_anonymous true\nmax_packet_size 40000").await;
    let sink = MqttSink::new(&format!("{}/orders", server.url())).unwrap();
    assert_eq!(sink.capabilities().payload_bytes_max, None, "not heard yet");
    confirm(&sink, &entries(1)).await;
    let limit = sink.capabilities().payload_bytes_max.unwrap();
    assert_eq!(limit, 40_000 - 16 * 1024);
    let of = |bytes: usize| entry(Event::new("order.placed", vec![b'x'; bytes]));
    let headers = |count: usize| {
        (0..count).fold(of(limit), |mut entry, n| {
            entry.headers.insert(format!("h{n}"), "x".repeat(4000));
            entry
        })
    };
    let outcomes = deliver(&sink, &[of(0), of(limit + 1), headers(5), headers(3), of(limit)]).await;
    assert_eq!(rejected(&outcomes[1]).code(), "too_large");
    assert_eq!(rejected(&outcomes[2]).code(), "too_large", "headers count too");
    for confirmed in [0, 3, 4] {
        assert_eq!(outcomes[confirmed], Outcome::Confirmed);
    }
}

#[tokio::test]
async fn an_entry_whose_topic_would_be_too_long_is_rejected_and_the_rest_confirmed() {
    // A level of 255 characters with three bytes in each, percent-encoded to nine, and many of them.
    let url = format!("{}/{}", variable(SERVER), "{key}".repeat(30));
    let of = |key: &str| entry(Event::new("order.placed", "{}").key(key));
    let long = "\u{ffff}".repeat(255);
    let outcomes = deliver(&MqttSink::new(&url).unwrap(), &[of("a"), of(&long), of("b")]).await;
    assert_eq!(rejected(&outcomes[1]).code(), "unroutable");
    assert_eq!((&outcomes[0], &outcomes[2]), (&Outcome::Confirmed, &Outcome::Confirmed));
    let keyless = MqttSink::new(&format!("{}/{{key}}", variable(SERVER))).unwrap();
    assert_eq!(rejected(&deliver_one(&keyless, &order()).await).code(), "unroutable");
}

#[tokio::test]
async fn a_quality_of_service_that_the_server_does_not_offer_is_down_and_names_the_setting() {
    let server = Server::start("allow_anonymous true\nmax_qos 1").await;
    let outcome = deliver_one(&MqttSink::new(&format!("{}/o?qos=2", server.url())).unwrap(), &order()).await;
    assert!(assert_outcome(&outcome, "down/qos").text().contains("qos="), "{outcome:?}");
    all_confirmed(&deliver(&MqttSink::new(&format!("{}/o", server.url())).unwrap(), &entries(3)).await);

    let server = Server::start("allow_anonymous true\nmax_qos 0").await;
    let source = MqttSource::new(&format!("{}/o?client_id=c", server.url())).unwrap();
    let error = source.subscribe().await.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}

#[tokio::test]
async fn a_port_that_does_not_speak_mqtt_or_tls_is_down() {
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
    let sink =
        |scheme: &str, port: u16| MqttSink::new(&format!("{scheme}://127.0.0.1:{port}/orders")).unwrap();
    let outcome = deliver_one(&sink("mqtt", port), &order()).await;
    assert!(down(&outcome).text().contains(&port.to_string()), "{outcome:?}");
    assert_outcome(&deliver_one(&sink("mqtts", port), &order()).await, "down/tls");
    assert_outcome(&deliver_one(&sink("mqtt", 1), &order()).await, "down/unreachable");
}
