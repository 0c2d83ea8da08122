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
        "sqs://eu-west-1/orders-{type}.fifo?endpoint=http://127.0.0.1:4566&account=123456789012&profile=shop\
         &source=%2Fshop&in_flight=3&message_bytes_max=1048576&ca=ca.pem&confirm_timeout=9s&connect_timeout=2s",
    )
    .unwrap();
    assert_eq!(
        (options.region.as_str(), options.queue.to_string().as_str()),
        ("eu-west-1", "orders-{type}.fifo")
    );
    assert_eq!(options.endpoint.as_deref(), Some("http://127.0.0.1:4566"));
    assert_eq!(
        (options.account.as_deref(), options.profile.as_deref()),
        (Some("123456789012"), Some("shop"))
    );
    assert_eq!(
        (options.source.as_str(), options.in_flight, options.message_bytes_max),
        ("/shop", 3, 1_048_576)
    );
    assert_eq!(options.confirm_timeout, Duration::from_secs(9));
    assert_eq!(options.connect_timeout, Duration::from_secs(2));
    assert!(options.ca.is_some() && options.is_fifo());

    let options = source(
        "sqs://eu-west-1/orders?visibility=2m&hold=0s&wait=3s&nack_delay=0s&prefetch=8&parked=dead.fifo",
    )
    .unwrap();
    assert_eq!(options.check_source().unwrap(), "orders");
    assert_eq!((options.visibility, options.hold), (Duration::from_secs(120), Duration::ZERO));
    assert_eq!((options.wait, options.nack_delay), (Duration::from_secs(3), Duration::ZERO));
    assert_eq!((options.prefetch, options.parked.as_deref()), (8, Some("dead.fifo")));
}

#[test]
fn defaults_are_those_of_the_documentation() {
    let options = sink("sqs://us-gov-east-1/orders").unwrap();
    assert_eq!(options.address(), "SQS in region \"us-gov-east-1\"");
    assert_eq!((options.endpoint.as_ref(), options.source.as_str()), (None, "pillarbox"));
    assert_eq!((options.in_flight, options.message_bytes_max, options.prefetch), (8, 262_144, 64));
    assert_eq!((options.visibility, options.hold), (Duration::from_secs(30), Duration::from_secs(3600)));
    assert_eq!((options.wait, options.nack_delay), (Duration::from_secs(20), Duration::from_secs(1)));
    assert_eq!(options.connect_timeout, Duration::from_secs(5));
    assert_eq!(options.confirm_timeout, Duration::from_secs(60));
    assert!(!options.is_fifo());
}

#[test]
fn what_is_wrong_is_named_with_what_is_allowed() {
    refused(sink("orders"), "not a URL");
    refused(sink("sqs:orders"), "sqs://");
    refused(sink("http://host/orders"), "the allowed one is sqs");
    refused(sink("sqs:///orders"), "no region");
    refused(sink("sqs://eu_west/orders"), "is no region");
    refused(sink("sqs://sqs.eu-west-1.amazonaws.com/orders"), "is no region");
    refused(sink("sqs://eu-west-1:80/orders"), "endpoint=");
    refused(sink("sqs://eu-west-1"), "the queue is missing");
    refused(sink("sqs://eu-west-1/123456789012/orders"), "is no queue's name");
    refused(sink("sqs://eu-west-1/a.b"), "is no queue's name");
    refused(sink("sqs://eu-west-1/.fifo"), "is no queue's name");
    refused(sink("sqs://eu-west-1/a.{type}"), "can be no queue's name");
    refused(sink("sqs://eu-west-1/%ff"), "not UTF-8");
    refused(sink("sqs://eu-west-1/{tpye}"), "{tpye}");
    refused(sink("sqs://eu-west-1/orders#x"), "fragment");
    refused(sink("sqs://eu-west-1/orders?inflight=2"), "the allowed ones are endpoint, account");
    refused(sink("sqs://eu-west-1/orders?parked=x"), "unknown parameter \"parked\"");
    refused(sink("sqs://eu-west-1/orders?in_flight=1&in_flight=2"), "in_flight= is given twice");
    refused(sink("sqs://eu-west-1/orders?in_flight=0"), "in_flight must be 1 to 256");
    refused(sink("sqs://eu-west-1/orders?message_bytes_max=2000000"), "message_bytes_max must be 1024 to");
    refused(sink("sqs://eu-west-1/orders?source="), "source must not be empty");
    refused(sink("sqs://eu-west-1/orders?account=12"), "account= must be the twelve digits");
    refused(sink("sqs://eu-west-1/orders?endpoint=localhost"), "endpoint= is not a URL");
    refused(sink("sqs://eu-west-1/orders?endpoint=ftp://x"), "endpoint= must begin with http://");
    refused(sink("sqs://eu-west-1/orders?confirm_timeout=0s"), "confirm_timeout must be more than zero");
    refused(source("sqs://eu-west-1/"), "the queue is missing");
    refused(source("sqs://eu-west-1/{type}"), "{type}");
    refused(source("sqs://eu-west-1/a?visibility=0s"), "visibility must be more than zero");
    refused(source("sqs://eu-west-1/a?visibility=13h"), "visibility must be at most 43200 s");
    refused(source("sqs://eu-west-1/a?nack_delay=100ms"), "nack_delay must be whole seconds");
    refused(source("sqs://eu-west-1/a?wait=21s"), "wait must be at most 20 s");
    refused(source("sqs://eu-west-1/a?prefetch=0"), "prefetch must be 1");
    refused(source("sqs://eu-west-1/a?parked=a.b"), "parked=");
}

#[test]
fn no_secret_is_shown() {
    for url in [
        "sqs://AKIA:canary@eu-west-1/orders",
        "sqs://canary@eu-west-1/orders",
        "sqs://AKIA:canary@/orders?x=y",
        "sqs://eu-west-1/orders?endpoint=http://AKIA:canary@127.0.0.1:4566",
    ] {
        let error = sink(url).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
    }
}
