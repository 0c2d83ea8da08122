//! What a URL says, and what is refused of it.

use super::*;

fn refused(url: &str, why: &str) {
    let error = Options::of_sink(url).and_then(|options| options.check()).unwrap_err();
    assert!(error.to_string().contains(why), "{url}: {error}");
    assert!(!error.to_string().contains("canary"), "{error}");
}

#[test]
fn a_url_with_nothing_but_a_host_means_the_defaults() {
    let options = Options::of_sink("amqp://mq").unwrap();
    options.check().unwrap();
    assert_eq!(options.uri().to_string(), "amqp://guest:guest@mq:5672/%2F?heartbeat=10");
    assert_eq!((options.exchange.to_string(), options.routing_key.to_string()), ("".into(), "{type}".into()));
    assert_eq!((options.source.as_str(), options.prefetch), ("pillarbox", 100));
}

#[test]
fn every_parameter_is_read() {
    let options = Options::of_sink(
        "amqps://a%40b:p%3a+%2f@[::1]:1234/v%2fh?exchange=e.{route}&routing_key={type}.{key}&source=%2Fshop\
         &header_prefix=ce-&payload_bytes_max=1000&confirm_timeout=3s&connect_timeout=2s&heartbeat=1m&ca=%2Fetc%2Fca.pem",
    )
    .unwrap();
    let uri = options.uri();
    assert_eq!(uri.authority.userinfo.username, "a@b");
    assert_eq!(uri.authority.userinfo.password, "p:+/");
    assert_eq!((uri.authority.host.as_str(), uri.authority.port), ("::1", 1234));
    assert_eq!((uri.vhost.as_str(), uri.query.heartbeat), ("v/h", Some(60)));
    assert_eq!(options.exchange.to_string(), "e.{route}");
    assert_eq!(options.routing_key.to_string(), "{type}.{key}");
    assert_eq!(options.source, "/shop");
    assert_eq!(options.header_prefix, Some(HeaderPrefix::Ce));
    assert_eq!(options.payload_bytes_max, Some(1000));
    assert_eq!(options.confirm_timeout, Duration::from_secs(3));
    assert_eq!(options.connect_timeout, Duration::from_secs(2));
    assert_eq!(options.ca, Some("/etc/ca.pem".into()));

    let options = "amqp://mq/?queue=q&queue_type=quorum&prefetch=7&header_prefix=cloudEvents:";
    let options = Options::of_source(options).unwrap();
    assert_eq!(options.header_prefix, Some(HeaderPrefix::Colon));
    assert_eq!((options.queue.as_deref(), options.prefetch), (Some("q"), 7));
    assert_eq!(options.queue_type, Some(QueueType::Quorum));
    assert_eq!(options.uri().vhost, "/", "an empty vhost is nobody's wish");
}

#[test]
fn what_is_wrong_is_named_with_what_is_allowed() {
    refused("mq", "not a URL");
    refused("http://mq", "the allowed ones are amqp and amqps");
    refused("canary:canary@mq/", "it must begin with amqp://");
    refused("amqp:///%2f", "the URL has no host");
    refused("amqp://mq/a/b", "%2f");
    refused(
        "amqp://u:canary@mq/?exchnage=x",
        "unknown parameter \"exchnage\"; the allowed ones are exchange, routing_key",
    );
    refused("amqp://mq/?queue=q", "unknown parameter \"queue\"");
    refused("amqp://mq/?exchange=a&exchange=b", "exchange= is given twice");
    refused("amqp://mq/?routing_key={tpye}", "routing_key=: unknown placeholder {tpye}");
    refused("amqp://mq/?payload_bytes_max=many", "payload_bytes_max=: \"many\" is not a whole number");
    refused("amqp://mq/?connect_timeout=soon", "connect_timeout=");
    refused(
        "amqp://mq/?header_prefix=x-",
        "header_prefix=: \"x-\" is not allowed; write cloudEvents:, cloudEvents_ or ce-",
    );
    refused("amqp://mq/?confirm_timeout=0s", "confirm_timeout must be more than zero");
    refused("amqp://mq/?connect_timeout=0s", "connect_timeout must be more than zero");
    refused("amqp://mq/?heartbeat=500ms", "heartbeat must be 1 s to 65535 s");
    refused("amqp://mq/?heartbeat=1d", "heartbeat must be 1 s to 65535 s");
    refused("amqp://mq/?source=", "source must not be empty");
}

#[test]
fn a_source_needs_its_queue() {
    for url in ["amqp://mq/", "amqp://mq/?queue="] {
        let error = Options::of_source(url).unwrap_err();
        assert!(error.to_string().contains("queue= is missing"), "{error}");
    }
    let error = Options::of_source("amqp://mq/?queue=q&queue_type=stream").unwrap_err();
    assert!(error.to_string().contains("write classic or quorum"), "{error}");
    assert!(Options::of_source("amqp://mq/?queue=q&prefetch=0").unwrap().check().is_err());
    assert!(Options::of_source("amqp://mq/?queue=q&exchange=e").is_err());
}

#[test]
fn the_password_is_not_shown() {
    let options = Options::of_sink("amqp://app:canary@mq/%2f").unwrap();
    assert!(!format!("{options:?}").contains("canary"), "{options:?}");
    assert!(format!("{options:?}").contains("app"), "{options:?}");
}
