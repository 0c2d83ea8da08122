//! Whom a webhook may reach: names that resolve into private networks, and names that change their mind.

use std::sync::Arc;
use std::time::Duration;

use pillarbox_core::port::Sink as _;
use pillarbox_transport_http::{HttpSink, Options};
use tokio::net::TcpListener;

use super::harness::{Names, PATIENCE, Server, deliver, deliver_one, entry, private, shown, text_of};

/// A name with these addresses, and a port on which a server of this machine would answer.
fn named(port: u16, names: &Arc<Names>, connect_timeout: Duration) -> HttpSink {
    let options = Options::of_sink(&format!("https://rebind.example.org:{port}/")).unwrap();
    let options = options.ports([port]).resolver(Arc::<Names>::clone(names));
    HttpSink::with_options(options.connect_timeout(connect_timeout)).unwrap()
}

#[tokio::test]
async fn a_name_with_a_private_address_is_down_and_nothing_connects() {
    let server = Server::status(200).await;
    for addresses in [
        &["127.0.0.1"][..],
        &["10.0.0.1"],
        &["172.16.0.1"],
        &["192.168.1.1"],
        &["169.254.169.254"],
        &["100.64.0.1"],
        &["0.0.0.0"],
        &["224.0.0.1"],
        &["255.255.255.255"],
        &["192.0.2.1"],
        &["::1"],
        &["::"],
        &["::ffff:127.0.0.1"],
        &["::ffff:8.8.8.8"],
        &["::127.0.0.1"],
        &["fd00::1"],
        &["fe80::1"],
        &["ff02::1"],
        &["2002:7f00:1::1"],
        &["64:ff9b::7f00:1"],
        // One bad address refuses the name, wherever it stands.
        &["127.0.0.1", "8.8.8.8"],
        &["8.8.8.8", "127.0.0.1"],
    ] {
        let sink = named(server.address.port(), &Names::new(&[addresses]), PATIENCE);
        let outcome = &deliver(&sink, &[entry(1)]).await[0];
        assert_eq!(shown(outcome), "down address_refused", "{addresses:?}");
        assert!(text_of(outcome).contains("allow_private"), "{outcome:?}");
    }
    assert!(server.seen().is_empty());
}

/// A check that looks the name up once and a connection that looks it up again would meet at the second answer.
#[tokio::test]
async fn a_connection_goes_to_the_address_that_was_checked() {
    let first = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = first.local_addr().unwrap().port();
    let second = TcpListener::bind(("127.0.0.2", port)).await.unwrap();
    let ok = async |_| axum::response::IntoResponse::into_response("");
    let (first, second) = (Server::on(first, ok), Server::on(second, ok));
    let names = Names::new(&[&["127.0.0.1"], &["127.0.0.2"]]);
    let options = private(&format!("http://rebind.example.org:{port}/")).concurrency(1);
    let sink = HttpSink::with_options(options.resolver(Arc::<Names>::clone(&names))).unwrap();
    for _ in 0..3 {
        assert_eq!(deliver_one(&sink).await, "confirmed");
    }
    assert_eq!((first.seen().len(), second.seen().len()), (3, 0));
    assert_eq!(names.asked(), ["rebind.example.org"], "looked up once, for the one connection");
    assert_eq!(
        first.seen()[0].headers["host"],
        format!("rebind.example.org:{port}"),
        "the name stays the host"
    );
}

/// The first answer is public (an address of a translator that is not there), the second is this machine.
#[tokio::test]
async fn a_name_that_turns_to_this_machine_after_its_check_does_not_reach_it() {
    let server = Server::status(200).await;
    let names = Names::new(&[&["64:ff9b::c01f:c401"], &["127.0.0.1"]]);
    let sink = named(server.address.port(), &names, Duration::from_millis(100));
    let outcome = deliver_one(&sink).await;
    assert!(outcome.starts_with("down ") && outcome != "down address_refused", "{outcome}");
    assert_eq!(names.asked().len(), 1);
    assert_eq!(
        deliver_one(&sink).await,
        "down address_refused",
        "the second answer is checked like the first"
    );
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn over_http_a_private_name_is_reached_and_a_public_one_is_not() {
    let server = Server::status(200).await;
    let url = format!("http://hooks.example.org:{}/", server.address.port());
    let sink = HttpSink::with_options(private(&url).resolver(Names::new(&[&["127.0.0.1"]]))).unwrap();
    assert_eq!(deliver_one(&sink).await, "confirmed");
    let sink = HttpSink::with_options(private(&url).resolver(Names::new(&[&["8.8.8.8"]]))).unwrap();
    let outcome = &deliver(&sink, &[entry(1)]).await[0];
    assert_eq!(shown(outcome), "down address_refused");
    assert!(text_of(outcome).contains("allow_http"), "{outcome:?}");
}

#[tokio::test]
async fn the_next_address_is_tried_when_the_first_does_not_answer() {
    let server = Server::status(200).await;
    let names = Names::new(&[&["127.0.0.3", "127.0.0.1"]]);
    let url = format!("http://hooks.example.org:{}/", server.address.port());
    let sink = HttpSink::with_options(private(&url).resolver(names)).unwrap();
    assert_eq!(deliver_one(&sink).await, "confirmed");
}

#[tokio::test]
async fn the_operating_system_is_asked_for_names() {
    let server = Server::status(200).await;
    let url = format!("http://localhost:{}/", server.address.port());
    assert_eq!(deliver_one(&HttpSink::with_options(private(&url)).unwrap()).await, "confirmed");
}

#[test]
fn making_a_sink_looks_nothing_up() {
    let names = Names::new(&[&["127.0.0.1"]]);
    let options = Options::of_sink("https://hooks.example.org/").unwrap();
    let sink = HttpSink::with_options(options.resolver(Arc::<Names>::clone(&names))).unwrap();
    assert!(names.asked().is_empty());
    assert!(!sink.capabilities().durable);
}
