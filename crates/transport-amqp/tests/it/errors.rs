//! One test per row of the error table, provoked on the real broker.

use lapin::ExchangeKind;
use lapin::types::AMQPValue;
use pillarbox_conformance::delivery::{
    SOON, all_confirmed, assert_outcome, deliver, entries_of, entry, random,
};
use pillarbox_core::port::{Sink, Source};
use pillarbox_core::{ErrorKind, Event, Outcome};
use pillarbox_testkit::{Direction, Fault, FaultProxy, eventually};
use pillarbox_transport_amqp::{AmqpSink, AmqpSource};

use crate::harness::{Broker, control, ids, node, server, sink_into};

#[tokio::test]
async fn a_message_without_a_queue_is_rejected() {
    let broker = Broker::start().await;
    let exchange = broker.exchange(ExchangeKind::Topic).await;
    let sink = AmqpSink::new(&format!("{}?exchange={exchange}&routing_key={{type}}", server())).unwrap();
    let outcomes = deliver(&sink, &entries_of("nowhere", 1)).await;
    assert_outcome(&outcomes[0], "rejected/unroutable");
    assert!(format!("{outcomes:?}").contains(&exchange));
}

#[tokio::test]
async fn a_missing_exchange_is_down_until_it_is_declared() {
    let broker = Broker::start().await;
    let (exchange, queue) = (broker.name("later"), broker.queue("classic", &[]).await);
    let sink = AmqpSink::new(&format!("{}?exchange={exchange}", server())).unwrap();
    let batch = entries_of("t", 50);
    for outcome in deliver(&sink, &batch).await {
        assert_outcome(&outcome, "down/not_found");
        assert!(format!("{outcome:?}").contains(&exchange), "{outcome:?}");
    }
    broker.declare_exchange(&exchange, ExchangeKind::Fanout).await;
    broker.bind(&queue, &exchange, "").await;
    all_confirmed(&deliver(&sink, &batch).await);
    assert_eq!(broker.take(&queue).await.len(), 50);
}

#[tokio::test]
async fn a_queue_that_is_full_costs_no_attempt() {
    for queue_type in ["classic", "quorum"] {
        a_full_queue(queue_type).await;
    }
}

async fn a_full_queue(queue_type: &str) {
    let broker = Broker::start().await;
    let bounds = [
        ("x-max-length", AMQPValue::LongInt(1)),
        ("x-overflow", AMQPValue::LongString("reject-publish".into())),
    ];
    let queue = broker.queue(queue_type, &bounds).await;
    let sink = sink_into(&server(), &queue);
    // A quorum queue takes some more until it has noticed.
    eventually(SOON, async || {
        let outcomes = deliver(&sink, &entries_of("t", 10)).await;
        matches!(&outcomes[9], Outcome::Busy { failure, .. } if failure.code() == "nack")
    })
    .await;
    eventually(SOON, async || {
        broker.take(&queue).await;
        deliver(&sink, &entries_of("t", 1)).await[0] == Outcome::Confirmed
    })
    .await;
}

#[tokio::test]
async fn a_user_without_rights_is_down_and_another_queue_is_denied() {
    let broker = Broker::start().await;
    let queue = broker.queue("classic", &[]).await;
    let (user, password) = (broker.name("user"), format!("canary{:016x}", random()));
    control(&["add_user", &user, &password]).await;
    control(&["set_permissions", &user, "^$", "^$", "^$"]).await;
    let server = server();
    let host = server.rsplit_once('@').unwrap().1;
    let as_user = format!("amqp://{user}:{password}@{host}");

    let exchange = broker.exchange(ExchangeKind::Fanout).await;
    broker.bind(&queue, &exchange, "").await;
    let sink = AmqpSink::new(&format!("{as_user}?exchange={exchange}")).unwrap();
    let outcome = &deliver(&sink, &entries_of("t", 3)).await[0];
    assert_outcome(outcome, "down/denied");
    assert!(!format!("{outcome:?}").contains("canary"), "{outcome:?}");
    let source = AmqpSource::new(&format!("{as_user}?queue={queue}")).unwrap();
    let error = source.subscribe().await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains(&queue), "{error}");

    control(&["set_permissions", &user, "^$", ".*", ".*"]).await;
    // The broker remembers for a second what it once refused.
    eventually(SOON, async || deliver(&sink, &entries_of("t", 1)).await[0] == Outcome::Confirmed).await;
    source.subscribe().await.unwrap();
    control(&["delete_user", &user]).await;
}

#[tokio::test]
async fn a_wrong_password_is_down_and_denied_and_named() {
    let _broker = Broker::start().await;
    let server = server();
    let host = server.rsplit_once('@').unwrap().1;
    let wrong = format!("amqp://pillarbox:canary@{host}");
    let outcome = &deliver(&AmqpSink::new(&wrong).unwrap(), &entries_of("t", 2)).await[1];
    assert_outcome(outcome, "down/denied");
    assert!(format!("{outcome:?}").contains("user and password"), "{outcome:?}");
    assert!(!format!("{outcome:?}").contains("canary"), "{outcome:?}");
    let error = AmqpSource::new(&format!("{wrong}?queue=q")).unwrap().subscribe().await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(!error.to_string().contains("canary"), "{error}");
}

#[tokio::test]
async fn a_wrong_vhost_is_down_and_denied_and_named() {
    let _broker = Broker::start().await;
    let wrong = server().replace("/%2f", "/nowhere");
    let outcome = &deliver(&AmqpSink::new(&wrong).unwrap(), &entries_of("t", 1)).await[0];
    assert_outcome(outcome, "down/not_allowed");
    assert!(format!("{outcome:?}").contains("nowhere"), "{outcome:?}");
    let error = AmqpSource::new(&format!("{wrong}?queue=q")).unwrap().subscribe().await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
}

#[tokio::test]
async fn a_handshake_without_an_answer_is_a_timeout_for_a_source() {
    let _broker = Broker::start().await;
    let (proxy, through) = FaultProxy::before(&server());
    proxy.set(Fault::BlackHole(Direction::ToClient));
    let source = AmqpSource::new(&format!("{through}?queue=q&connect_timeout=200ms")).unwrap();
    assert_eq!(source.subscribe().await.err().unwrap().kind(), ErrorKind::Timeout);
}

#[tokio::test]
async fn tls_to_a_server_without_it_is_down() {
    let _broker = Broker::start().await;
    let outcome =
        &deliver(&AmqpSink::new(&server().replace("amqp:", "amqps:")).unwrap(), &entries_of("t", 1)).await[0];
    assert!(matches!(outcome, Outcome::Down(_)), "never in plain text: {outcome:?}");
}

#[tokio::test]
async fn only_the_message_over_the_brokers_limit_is_rejected() {
    const LIMIT: usize = 3_000_000;
    let _node = node().await;
    let broker = Broker::alone().await;
    let queue = broker.queue("classic", &[]).await;
    let before = control(&["eval", "rabbit_misc:get_env(rabbit, max_message_size, 134217728)."]).await;
    control(&["eval", &format!("application:set_env(rabbit, max_message_size, {LIMIT}).")]).await;

    let sink = sink_into(&server(), &queue);
    let mut batch = entries_of("t", 5);
    batch[2] = entry(Event::new("t", vec![b'x'; LIMIT + 1]));
    batch[3] = entry(Event::new("t", vec![b'x'; LIMIT]));
    assert_eq!(sink.capabilities().payload_bytes_max, None);
    let first = deliver(&sink, &batch).await;
    let learned = sink.capabilities().payload_bytes_max;
    let second = deliver(&sink, &batch).await;
    control(&["eval", &format!("application:set_env(rabbit, max_message_size, {}).", before.trim())]).await;

    assert_outcome(&first[2], "rejected/too_large");
    assert_eq!(learned, Some(LIMIT), "the limit is known from then on");
    assert_outcome(&second[2], "rejected/too_large");
    for index in [0, 1, 3, 4] {
        assert!(!matches!(first[index], Outcome::Rejected(_)), "{:?}", first[index]);
        assert_eq!(second[index], Outcome::Confirmed, "{index}");
    }
}

#[tokio::test]
async fn an_alarm_is_down_while_it_lasts() {
    let _node = node().await;
    let broker = Broker::alone().await;
    let queue = broker.queue("quorum", &[]).await;
    let sink = sink_into(&server(), &queue);
    all_confirmed(&deliver(&sink, &entries_of("t", 1)).await);
    let before = control(&["eval", "vm_memory_monitor:get_vm_memory_high_watermark()."]).await;
    control(&["set_vm_memory_high_watermark", "0.00001"]).await;

    let batch = entries_of("t", 20);
    let mut outcomes = Vec::new();
    for _ in 0..3 {
        outcomes.extend(deliver(&sink, &batch).await);
    }
    // Before anything is asserted: others must not be left with the alarm.
    control(&["set_vm_memory_high_watermark", before.trim()]).await;
    for outcome in outcomes {
        assert_outcome(&outcome, "down/blocked");
        assert!(format!("{outcome:?}").contains("memory"), "{outcome:?}");
    }
    eventually(SOON, async || {
        deliver(&sink, &batch).await.iter().all(|outcome| *outcome == Outcome::Confirmed)
    })
    .await;
    let arrived = ids(&broker.take(&queue).await);
    assert!(batch.iter().all(|entry| arrived.contains(&entry.event_id)));
}

#[tokio::test]
async fn what_no_message_can_carry_is_rejected_and_its_neighbours_arrive() {
    let broker = Broker::start().await;
    let queue = broker.queue("classic", &[]).await;
    let sink = sink_into(&server(), &queue);
    let mut flooded = Event::new("t", "{}");
    for n in 0..60 {
        flooded = flooded.header(format!("h{n}"), "x".repeat(4096));
    }
    // Just within one frame: the broker must take what we take.
    let mut full = Event::new("t", "{}");
    for n in 0..31 {
        full = full.header(format!("h{n:02}"), "x".repeat(4096));
    }
    let batch = [
        entry(Event::new("t", "{}")),
        entry(flooded),
        entry(Event::new("t", "{}").header("CC", "x")),
        entry(full),
        entry(Event::new("t".repeat(255), "{}")),
    ];
    let outcomes = deliver(&sink, &batch).await;
    assert_outcome(&outcomes[1], "rejected/headers_too_large");
    assert_outcome(&outcomes[2], "rejected/reserved_header");
    for index in [0, 3, 4] {
        assert_eq!(outcomes[index], Outcome::Confirmed, "{index}");
    }
    let by_key = AmqpSink::new(&format!("{}?routing_key={{key}}{{type}}", server())).unwrap();
    let long = entry(Event::new("t", "{}").key("k".repeat(255)));
    assert_outcome(&deliver(&by_key, &[long]).await[0], "rejected/routing_key_too_long");
}
