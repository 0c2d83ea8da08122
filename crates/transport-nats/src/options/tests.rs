//! What a URL may contain, and the error for anything else.

use pillarbox_conformance::delivery::assert_invalid as refused;

use super::*;

fn sink(url: &str) -> Result<Options> {
    Options::of_sink(url).and_then(|options| options.check_sink().map(|()| options))
}

fn source(url: &str) -> Result<Options> {
    let options = Options::of_source(url)?;
    options.check_source()?;
    Ok(options)
}

#[test]
fn a_url_says_it_all() {
    let options = sink(
        "tls://app:s%40cret@one,two:5222/orders.{type}?stream=ORDERS&source=%2Fshop&credentials=app.creds&ca=ca.pem\
         &confirm_timeout=9s&connect_timeout=2s",
    )
    .unwrap();
    assert_eq!(options.servers, ["tls://one:4222", "tls://two:5222"]);
    assert!(
        matches!(&options.login, Login::User { name, password } if name == "app" && password == "s@cret")
    );
    assert_eq!(options.subject.to_string(), "orders.{type}");
    assert_eq!(options.stream.as_deref(), Some("ORDERS"));
    assert_eq!(options.source, "/shop");
    assert_eq!(options.confirm_timeout, Duration::from_secs(9));
    assert_eq!(options.connect_timeout, Duration::from_secs(2));
    assert!(options.credentials.is_some() && options.ca.is_some() && options.tls());

    let options = source(
        "nats://host/orders.>?stream=ORDERS&durable=billing&ack_wait=1m&nack_delay=0s&prefetch=8&parked=parked.orders",
    )
    .unwrap();
    assert_eq!(options.durable.as_deref(), Some("billing"));
    assert_eq!((options.ack_wait, options.nack_delay), (Duration::from_secs(60), Duration::ZERO));
    assert_eq!((options.prefetch, options.parked.as_deref()), (8, Some("parked.orders")));
}

#[test]
fn defaults_are_those_of_the_documentation() {
    let options = sink("nats://[::1]/orders").unwrap();
    assert_eq!(options.servers, ["nats://[::1]:4222"]);
    assert!(matches!(options.login, Login::Nobody));
    assert_eq!((options.stream.as_deref(), options.source.as_str()), (None, "pillarbox"));
    assert_eq!((options.ack_wait, options.prefetch), (Duration::from_secs(30), 64));
    assert_eq!(options.nack_delay, Duration::from_millis(100));
    assert_eq!(options.connect_timeout, Duration::from_secs(5));
    assert_eq!(options.confirm_timeout, Duration::from_secs(60));
    assert!(!options.tls());
}

#[test]
fn what_is_wrong_is_named_with_what_is_allowed() {
    refused(sink("orders"), "nats:// or tls://");
    refused(sink("http://host/orders"), "the allowed ones are nats and tls");
    refused(sink("nats:///orders"), "host");
    refused(sink("nats://one,/orders"), "host");
    refused(sink("nats://host/"), "the subject is missing");
    refused(sink("nats://host/orders.>"), "wildcard");
    refused(sink("nats://host/orders?steam=ORDERS"), "the allowed ones are stream, source");
    refused(sink("nats://host/orders?durable=billing"), "unknown parameter \"durable\"");
    refused(sink("nats://host/orders?stream=a&stream=b"), "stream= is given twice");
    refused(sink("nats://host/orders?stream="), "stream must not be empty");
    refused(sink("nats://host/orders?stream=a.b"), "stream \"a.b\"");
    refused(sink("nats://host/orders?source="), "source must not be empty");
    refused(sink("nats://host/orders?confirm_timeout=0s"), "confirm_timeout must be more than zero");
    refused(sink("nats://host/{tpye}"), "{tpye}");
    refused(source("nats://host/orders"), "durable= is missing");
    refused(source("nats://host?durable=d"), "neither a subject nor stream=");
    refused(source("nats://host/{type}?durable=d"), "{type}");
    refused(source("nats://host/a..b?durable=d"), "not a subject");
    refused(source("nats://host/orders?durable=a%20b"), "durable");
    refused(source("nats://host/orders?durable=d&ack_wait=soon"), "ack_wait=");
    refused(source("nats://host/orders?durable=d&ack_wait=0s"), "ack_wait must be more than zero");
    refused(source("nats://host/orders?durable=d&prefetch=0"), "prefetch must be 1");
    refused(source("nats://host/orders?durable=d&prefetch=many"), "prefetch=");
    refused(source("nats://host/orders?durable=d&parked=a.*"), "wildcard");
}

#[test]
fn no_secret_is_shown() {
    for url in ["nats://app:canary@host/orders", "nats://canary@host/orders"] {
        let options = sink(url).unwrap();
        assert!(!format!("{options:?} {}", options.address()).contains("canary"));
    }
    for url in ["nats://app:canary@host/orders?x=y", "nats://app:canary@/orders", "nats://app:canary@ho st/"]
    {
        let error = sink(url).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
    }
}

#[test]
fn a_subject_has_tokens_and_for_publishing_no_wildcards() {
    for (subject, publish, consume) in [
        ("orders.placed", true, true),
        ("orders.>", false, true),
        ("orders.*.x", false, true),
        ("orders..x", false, false),
        ("", false, false),
        ("a b", false, false),
        ("a\u{7}", false, false),
        (".a", false, false),
    ] {
        assert_eq!(publishable(subject).is_ok(), publish, "{subject}");
        assert_eq!(consumable(subject).is_ok(), consume, "{subject}");
    }
}
