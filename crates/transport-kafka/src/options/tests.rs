//! URLs that work, and what is said of those that do not.

use super::*;
use pillarbox_conformance::delivery::assert_invalid;

#[test]
fn a_url_names_hosts_topic_and_settings() {
    let options = Options::of_sink(
        "kafkas://app:s%40crt@one.example,two.example:9093,[::1]:19092/orders.{type}?source=/shop&compression=gzip\
         &batch_bytes=2048&sasl=scram-sha-512&connect_timeout=2s&confirm_timeout=3s&ca=/etc/ca.pem",
    )
    .unwrap();
    assert!(options.servers.tls);
    assert_eq!(options.servers.hosts, ["one.example:9092", "two.example:9093", "[::1]:19092"]);
    assert_eq!(options.login, Some(("app".into(), "s@crt".into())));
    assert_eq!((options.topic.to_string(), options.source.as_str()), ("orders.{type}".into(), "/shop"));
    assert_eq!((options.codec().unwrap(), options.batch_bytes), (Compression::Gzip, 2048));
    assert_eq!(options.mechanism().unwrap(), Sasl::Scram512);
    assert_eq!(options.connect_timeout, Duration::from_secs(2));
    assert_eq!(options.confirm_timeout, Duration::from_secs(3));
    assert!(options.check_sink().is_ok());

    let options = Options::of_source(
        "kafka://h/orders?group=billing&start=latest&session_timeout=10s&nack_delay=0s&prefetch=7&parked=dead",
    )
    .unwrap();
    assert_eq!(options.check_source().unwrap(), ("orders", "billing"));
    assert!(options.starts_late().unwrap());
    assert_eq!((options.prefetch, options.parked.as_deref()), (7, Some("dead")));
}

#[test]
fn no_text_shows_the_password() {
    let options = Options::of_sink("kafka://app:canary@host/orders").unwrap();
    assert!(!format!("{options:?}{}", options.address()).contains("canary"));
    for url in ["kafka://app:canary@/orders", "kafka://app:canary@host:x/orders", "mqtt://app:canary@h/o"] {
        let error = Options::of_sink(url).unwrap_err().to_string();
        assert!(!error.contains("canary"), "{error}");
    }
}

#[test]
fn a_url_that_cannot_work_names_the_part() {
    let sink = |url: &str| Options::of_sink(url).and_then(|options| options.check_sink());
    for (url, why) in [
        ("orders", "kafka://"),
        ("mqtt://host/orders", "scheme \"mqtt\""),
        ("kafka:///orders", "no host"),
        ("kafka://a,,b/orders", "no host"),
        ("kafka://host:99999/orders", "not a host"),
        ("kafka://app@host/orders", "both a user and a password"),
        ("kafka://host", "the topic is missing"),
        ("kafka://host/", "the topic is missing"),
        ("kafka://host/a/b", "'/'"),
        ("kafka://host/orders {type}", "' '"),
        ("kafka://host/orders.{tpye}", "tpye"),
        ("kafka://host/orders#x", "fragment"),
        ("kafka://host/orders?group=g", "unknown parameter \"group\""),
        ("kafka://host/orders?compression=zstd", "lz4"),
        ("kafka://host/orders?compression=best", "lz4"),
        ("kafka://host/orders?batch_bytes=1", "batch_bytes"),
        ("kafka://host/orders?sasl=gssapi", "scram-sha-512"),
        ("kafka://host/orders?connect_timeout=0s", "connect_timeout"),
        ("kafka://host/orders?source=", "source"),
    ] {
        assert_invalid(sink(url), why);
    }
    let source = |url: &str| Options::of_source(url).and_then(|options| options.check_source().map(drop));
    for (url, why) in [
        ("kafka://host/orders", "group= is missing"),
        ("kafka://host/orders.{type}?group=g", "placeholder"),
        ("kafka://host/?group=g", "the topic is missing"),
        ("kafka://host/orders?group=g&start=now", "earliest"),
        ("kafka://host/orders?group=g&prefetch=0", "prefetch"),
        ("kafka://host/orders?group=g&parked=a/b", "parked="),
        ("kafka://host/orders?group=g&compression=lz4", "unknown parameter"),
    ] {
        assert_invalid(source(url), why);
    }
}
