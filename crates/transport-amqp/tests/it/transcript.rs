//! Reading all that a stream holds.

use lapin::BasicProperties;
use lapin::types::AMQPValue;
use pillarbox_core::port::Transcript;
use pillarbox_core::{Error, ErrorKind, RouteName};
use pillarbox_transport_amqp::{AmqpSink, AmqpTranscript};

use crate::harness::{Broker, deliver, entries, server};

fn transcript(queue: &str) -> AmqpTranscript {
    AmqpTranscript::new(&format!("{}?queue={queue}", server())).unwrap()
}

/// The ids of all that is read.
async fn read(transcript: &AmqpTranscript) -> Result<Vec<String>, Error> {
    let mut pages = transcript.open().await?;
    let mut ids = Vec::new();
    loop {
        let page = pages.next().await?;
        if page.is_empty() {
            assert_eq!(pages.deleted(), 0);
            return Ok(ids);
        }
        ids.extend(page.into_iter().map(|mut attributes| attributes.remove("id").unwrap_or_default()));
    }
}

#[tokio::test]
async fn everything_in_a_stream_is_read_in_order_as_often_as_anybody_wants() {
    let broker = Broker::start().await;
    for more in [&[][..], &[("x-max-age", AMQPValue::LongString("1D".into()))]] {
        let queue = broker.named_queue(&format!("s{}", more.len()), "stream", more).await;
        if more.is_empty() {
            assert!(read(&transcript(&queue)).await.unwrap().is_empty());
        }
        let batch = entries("order.placed", 730);
        let to = format!("{}?routing_key={queue}", server());
        deliver(&AmqpSink::new(&to).unwrap(), &batch).await;
        broker.publish(&queue, BasicProperties::default(), b"7").await;
        let mut expected: Vec<String> = batch.iter().map(|entry| entry.event_id.to_string()).collect();
        expected.push(String::new());
        assert_eq!(read(&transcript(&queue)).await.unwrap(), expected);
        let of_sink = AmqpTranscript::of_sink(&to, &RouteName::new("orders").unwrap()).unwrap();
        assert_eq!(read(&of_sink).await.unwrap(), expected);
        broker.delete_queue(&queue).await;
    }
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

#[tokio::test]
async fn a_stream_that_is_not_there_is_not_found_and_not_made() {
    let broker = Broker::start().await;
    let queue = broker.name("nowhere");
    for _ in 0..2 {
        let error = transcript(&queue).open().await.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    }
}

#[test]
fn what_an_exchange_routes_to_is_not_in_the_url() {
    let route = RouteName::new("orders").unwrap();
    assert!(AmqpTranscript::of_sink("amqp://h/%2f?routing_key=q.{route}", &route).is_ok());
    for url in ["amqp://h/%2f?exchange=orders&routing_key=q", "amqp://h/%2f?routing_key={type}"] {
        let error = AmqpTranscript::of_sink(url, &route).map(drop).unwrap_err();
        assert!(error.to_string().contains("which queue"), "{error}");
    }
}
