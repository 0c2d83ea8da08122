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
        "rediss://app:s%40cret@host:6380/2?stream=orders:{type}&maxlen=1000&source=%2Fshop&connect_timeout=2s\
         &confirm_timeout=9s&ca=ca.pem",
    )
    .unwrap();
    assert_eq!(options.address(), "rediss://host:6380");
    let server = options.server();
    assert_eq!(server.redis_settings().username(), Some("app"));
    assert_eq!(server.redis_settings().password(), Some("s@cret"));
    assert_eq!(server.redis_settings().db(), 2);
    assert_eq!(options.stream.to_string(), "orders:{type}");
    assert_eq!((options.maxlen, options.source.as_str()), (Some(1000), "/shop"));
    assert_eq!(options.connect_timeout, Duration::from_secs(2));
    assert_eq!(options.confirm_timeout, Duration::from_secs(9));
    assert!(options.ca.is_some());

    let options = source(
        "valkey://host?stream=orders&group=billing&consumer=b1&create_group=false&reclaim_after=1m30s&nack_delay=0s\
         &prefetch=8",
    )
    .unwrap();
    assert_eq!((options.group.as_deref(), options.consumer.as_deref()), (Some("billing"), Some("b1")));
    assert!(!options.create_group);
    assert_eq!((options.reclaim_after, options.nack_delay), (Duration::from_secs(90), Duration::ZERO));
    assert_eq!(options.prefetch, 8);
}

#[test]
fn defaults_are_those_of_the_documentation() {
    let options = source("redis://[::1]?stream=orders&group=billing").unwrap();
    assert_eq!(options.address(), "redis://[::1]:6379");
    assert_eq!(options.server().redis_settings().db(), 0);
    assert_eq!((options.maxlen, options.consumer.as_deref(), options.create_group), (None, None, true));
    assert_eq!((options.reclaim_after, options.prefetch), (Duration::from_secs(60), 64));
    assert_eq!((options.nack_delay, options.source.as_str()), (Duration::ZERO, "pillarbox"));
    assert_eq!(options.connect_timeout, Duration::from_secs(5));
    assert_eq!(options.confirm_timeout, Duration::from_secs(60));
}

#[test]
fn what_is_wrong_is_named_with_what_is_allowed() {
    refused(sink("orders"), "not a URL");
    refused(sink("canary:canary@h/0?stream=s"), "it must begin with redis://");
    refused(sink("http://host?stream=s"), "the allowed ones are redis, rediss");
    refused(sink("redis:///0?stream=s"), "host");
    refused(sink("redis://host/orders?stream=s"), "the number of a database");
    refused(sink("redis://host/-1?stream=s"), "the number of a database");
    refused(sink("rediss://host/0?stream=s#insecure"), "fragment");
    refused(sink("redis://host"), "stream= is missing");
    refused(sink("redis://host?stream=s&group=g"), "unknown parameter \"group\"");
    refused(sink("redis://host?stream=s&stream=t"), "stream= is given twice");
    refused(sink("redis://host?stream={tpye}"), "{tpye}");
    refused(sink("redis://host?stream=s&maxlen=0"), "maxlen must be at least 1");
    refused(sink("redis://host?stream=s&maxlen=~5"), "maxlen=");
    refused(sink("redis://host?stream=s&source="), "source must not be empty");
    refused(sink("redis://host?stream=s&confirm_timeout=0s"), "confirm_timeout must be more than zero");
    refused(source("redis://host?group=g"), "stream= is missing");
    refused(source("redis://host?stream=s"), "group= is missing");
    refused(source("redis://host?stream=s:{type}&group=g"), "{type}");
    refused(source("redis://host?stream=s&group="), "group must not be empty");
    refused(source("redis://host?stream=s&group=g&consumer="), "consumer must not be empty");
    refused(
        source("redis://host?stream=s&group=g&create_group=yes"),
        "create_group=: \"yes\" is not allowed; write true or false",
    );
    refused(source("redis://host?stream=s&group=g&reclaim_after=soon"), "reclaim_after=");
    refused(source("redis://host?stream=s&group=g&reclaim_after=0s"), "reclaim_after must be more than zero");
    refused(source("redis://host?stream=s&group=g&prefetch=0"), "prefetch must be 1");
}

#[test]
fn no_secret_is_shown() {
    let options = sink("redis://app:canary@host?stream=s").unwrap();
    assert!(!format!("{options:?} {}", options.address()).contains("canary"));
    for url in [
        "redis://app:canary@host?steam=s",
        "redis://app:canary@/?stream=s",
        "redis://app:canary@host/x?stream=s",
        "redis://app:canary@ho st",
    ] {
        let error = sink(url).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
    }
}
