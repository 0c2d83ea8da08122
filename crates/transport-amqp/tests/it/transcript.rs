//! What can be read as a transcript.

use lapin::BasicProperties;
use lapin::types::AMQPValue;
use pillarbox_conformance::delivery::{confirm, entries, ids};
use pillarbox_conformance::transcript::read;
use pillarbox_core::{ErrorKind, RouteName};
use pillarbox_transport_amqp::AmqpTranscript;

use crate::harness::{Broker, server, sink_into};

fn transcript(queue: &str) -> AmqpTranscript {
    AmqpTranscript::new(&format!("{}?queue={queue}", server())).unwrap()
}

#[tokio::test]
async fn a_stream_that_forgets_by_age_is_read_and_so_is_an_empty_one() {
    let broker = Broker::start().await;
    let age = [("x-max-age", AMQPValue::LongString("1D".into()))];
    let queue = broker.named_queue("aged", "stream", &age).await;
    assert!(read(&transcript(&queue)).await.unwrap().0.is_empty());
    let batch = entries(730);
    confirm(&sink_into(&server(), &queue), &batch).await;
    let expected: Vec<String> = ids(&batch).iter().map(ToString::to_string).collect();
    assert_eq!(read(&transcript(&queue)).await.unwrap(), (expected, 0));
    broker.delete_queue(&queue).await;
}

#[tokio::test]
async fn a_queue_of_another_kind_is_no_transcript_and_keeps_what_it_has() {
    let broker = Broker::start().await;
    for kind in ["classic", "quorum"] {
        let queue = broker.queue(kind, &[]).await;
        let unsupported = async || {
            let error = read(&transcript(&queue)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        };
        unsupported().await;
        broker.publish(&queue, BasicProperties::default(), b"7").await;
        unsupported().await;
        assert_eq!(count(&broker, &queue).await, 1);
        broker.delete_queue(&queue).await;
    }
}

async fn count(broker: &Broker, queue: &str) -> u32 {
    let look = lapin::options::QueueDeclareOptions { passive: true, ..Default::default() };
    let told = broker.channel.queue_declare(queue.into(), look, Default::default()).await.unwrap();
    told.message_count()
}

#[test]
fn what_an_exchange_routes_to_is_not_in_the_url() {
    let route = RouteName::new("orders").unwrap();
    assert!(AmqpTranscript::of_sink("amqp://h/%2f?routing_key=q.{route}", &route).is_ok());
    for url in ["amqp://h/%2f?exchange=orders&routing_key=q", "amqp://h/%2f?routing_key={type}"] {
        let error = AmqpTranscript::of_sink(url, &route).map(drop).unwrap_err();
        assert!(error.to_string().contains("names an exchange, not the queue"), "{error}");
    }
}
