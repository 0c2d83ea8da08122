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
        "mqtts://app:s%40cret@one:5222/orders/{type}?qos=2&source=%2Fshop&ca=ca.pem&confirm_timeout=9s\
         &connect_timeout=2s",
    )
    .unwrap();
    assert_eq!(options.server, Server { tls: true, host: "one".into(), port: 5222 });
    assert_eq!(options.login, Some(("app".into(), "s@cret".into())));
    assert_eq!(options.topic.to_string(), "orders/{type}");
    assert_eq!((options.publish_qos(), options.source.as_str()), (QoS::ExactlyOnce, "/shop"));
    assert_eq!(options.confirm_timeout, Duration::from_secs(9));
    assert_eq!(options.connect_timeout, Duration::from_secs(2));
    assert!(options.ca.is_some());

    let options = source(
        "mqtt://host/orders/+/%23?group=billing&client_id=billing-1&session_expiry=1h&nack_delay=0s&prefetch=8\
         &parked=parked/orders",
    )
    .unwrap();
    assert_eq!(options.check_source().unwrap(), ("$share/billing/orders/+/#".to_owned(), "billing-1"));
    assert_eq!((options.session_expiry, options.nack_delay), (Duration::from_secs(3600), Duration::ZERO));
    assert_eq!((options.prefetch, options.parked.as_deref()), (8, Some("parked/orders")));
}

#[test]
fn defaults_are_those_of_the_documentation() {
    let options = sink("mqtt://[::1]/orders").unwrap();
    assert_eq!(options.address(), "mqtt://[::1]:1883");
    assert_eq!((options.login.as_ref(), options.source.as_str()), (None, "pillarbox"));
    assert_eq!((options.publish_qos(), options.prefetch), (QoS::AtLeastOnce, 64));
    assert_eq!(options.session_expiry, Duration::from_secs(604_800));
    assert_eq!(options.nack_delay, Duration::from_millis(100));
    assert_eq!(options.connect_timeout, Duration::from_secs(5));
    assert_eq!(options.confirm_timeout, Duration::from_secs(60));
    assert_eq!(sink("mqtts://host/orders").unwrap().address(), "mqtts://host:8883");
    assert_eq!(source("mqtt://host/a?client_id=c").unwrap().check_source().unwrap(), ("a".to_owned(), "c"));
}

#[test]
fn what_is_wrong_is_named_with_what_is_allowed() {
    refused(sink("orders"), "not a URL");
    refused(sink("mqtt:orders"), "mqtt:// or mqtts://");
    refused(sink("http://host/orders"), "the allowed ones are mqtt and mqtts");
    refused(sink("mqtt:///orders"), "host");
    refused(sink("mqtt://host/"), "the topic is missing");
    refused(sink("mqtt://host/orders/%23"), "wildcard");
    refused(sink("mqtt://host/+/{type}"), "wildcard");
    refused(sink("mqtt://host/orders/#"), "%23");
    refused(sink("mqtt://host/%ff"), "not UTF-8");
    refused(sink("mqtt://host/orders?qso=2"), "the allowed ones are qos, source");
    refused(sink("mqtt://host/orders?client_id=billing"), "unknown parameter \"client_id\"");
    refused(sink("mqtt://host/orders?qos=1&qos=2"), "qos= is given twice");
    refused(sink("mqtt://host/orders?qos=0"), "mqtt+qos0://");
    refused(sink("mqtt://host/orders?qos=3"), "qos must be 1 or 2");
    refused(sink("mqtt+qos0://host/orders?qos=1"), "unknown parameter \"qos\"");
    refused(sink("mqtt://host/orders?source="), "source must not be empty");
    refused(sink("mqtt://host/orders?confirm_timeout=0s"), "confirm_timeout must be more than zero");
    refused(sink("mqtt://host/{tpye}"), "{tpye}");
    refused(source("mqtt://host/orders"), "client_id= is missing");
    refused(source("mqtt://host?client_id=c"), "the topic is missing");
    refused(source("mqtt://host/{type}?client_id=c"), "{type}");
    refused(source("mqtt://host/a%23?client_id=c"), "not a topic filter");
    refused(source("mqtt://host/$share/g/a?client_id=c"), "group=");
    refused(source("mqtt://host/a?client_id="), "client_id");
    refused(source("mqtt://host/a?client_id=c&group=a%2Fb"), "group");
    refused(source("mqtt://host/a?client_id=c&session_expiry=0s"), "session_expiry must be more than zero");
    refused(source("mqtt://host/a?client_id=c&prefetch=0"), "prefetch must be 1");
    refused(source("mqtt://host/a?client_id=c&prefetch=70000"), "prefetch=");
    refused(source("mqtt://host/a?client_id=c&parked=a/%2B"), "parked=");
}

#[test]
fn no_secret_is_shown() {
    let options = sink("mqtt://app:canary@host/orders").unwrap();
    assert!(!format!("{options:?} {}", options.address()).contains("canary"));
    for url in ["mqtt://app:canary@host/orders?x=y", "mqtt://app:canary@/orders", "mqtt://app:canary@ho st/"]
    {
        let error = sink(url).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
    }
}
