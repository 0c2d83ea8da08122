//! What only this source does: extended visibility, parking by the redrive policy, groups, foreign messages.

use aws_sdk_sqs::types::QueueAttributeName;
use futures_util::FutureExt as _;
use pillarbox_conformance::delivery::{SOON, confirm, entries, entry};
use pillarbox_core::port::{Message, Source, Subscription};
use pillarbox_core::{Event, Received};
use pillarbox_testkit::eventually;
use pillarbox_transport_sqs::{SqsSink, SqsSource};

use crate::harness::{OwnQueue, create, read};

async fn next(subscription: &mut Box<dyn Subscription>) -> Message {
    let next = tokio::time::timeout(SOON, subscription.next()).await.expect("nothing arrives");
    next.unwrap().expect("the stream goes on")
}

fn source(queue: &OwnQueue, more: &str) -> SqsSource {
    SqsSource::new(&queue.at(&format!("wait=1s&{more}"))).unwrap()
}

/// A later message comes after the visibility timeout has ended several times. Until then nobody else gets the first one.
#[tokio::test]
async fn a_message_is_hidden_from_others_for_as_long_as_its_handler_runs() {
    let queue = OwnQueue::standard().await;
    let one = source(&queue, "visibility=1s&prefetch=1");
    let mut first = one.subscribe().await.unwrap();
    queue.send("held", None, &[]).await;
    let held = next(&mut first).await;
    let late = queue.client.send_message().queue_url(queue.url()).message_body("late").delay_seconds(4);
    late.send().await.unwrap();
    let two = source(&queue, "");
    let other = next(&mut two.subscribe().await.unwrap()).await;
    assert_eq!((other.body.as_slice(), other.delivery_count), (&b"late"[..], Some(1)));
    held.receipt.ack().await.unwrap();
    other.receipt.ack().await.unwrap();
    eventually(SOON, async || queue.counts(&queue.name).await == (0, 0)).await;
}

#[tokio::test]
async fn a_message_that_is_given_back_keeps_its_place_in_its_group() {
    let queue = OwnQueue::fifo().await;
    let of = |n: u32| entry(Event::new("order.placed", n.to_string()).key("k"));
    confirm(&SqsSink::new(&queue.at("")).unwrap(), &[of(1), of(2)]).await;
    let source = source(&queue, "nack_delay=1s");
    let mut subscription = source.subscribe().await.unwrap();
    for (body, count) in [("1", 1), ("1", 2), ("2", 1)] {
        let message = next(&mut subscription).await;
        assert_eq!((message.body.as_slice(), message.delivery_count), (body.as_bytes(), Some(count)));
        if (body, count) == ("1", 1) {
            message.receipt.nack().await.unwrap();
            assert!(subscription.next().now_or_never().is_none(), "the one behind it waits");
        } else {
            message.receipt.ack().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_parked_copy_says_where_it_came_from() {
    let queue = OwnQueue::fifo().await;
    let source = source(&queue, &format!("parked={}", queue.parked_name()));
    assert!(source.capabilities().keeps_parked);
    let batch = entries(1);
    confirm(&SqsSink::new(&queue.at("")).unwrap(), &batch).await;
    let mut subscription = source.subscribe().await.unwrap();
    next(&mut subscription).await.receipt.park().await.unwrap();
    let url =
        queue.client.get_queue_url().queue_name(queue.parked_name()).send().await.unwrap().queue_url.unwrap();
    let parked = read(&queue.client, &url).await.remove(0);
    let from = parked.message_attributes.unwrap()["pillarbox-parked-queue"].string_value.clone();
    assert_eq!(from.as_ref(), Some(&queue.name));
    let body = parked.body.unwrap();
    assert_eq!(pillarbox_conformance::Received::of_line(&body).event_id, batch[0].event_id);
    eventually(SOON, async || queue.counts(&queue.name).await == (0, 0)).await;
}

/// Where nothing else is set, what cannot be handled goes where the queue's owner wants dead letters.
#[tokio::test]
async fn the_queue_of_the_redrive_policy_takes_what_is_parked() {
    let queue = OwnQueue::fifo().await;
    let name = queue.name.replace(".fifo", "-dead.fifo");
    let dead = create(&queue.client, &name, &[]).await;
    let policy = format!(
        r#"{{"deadLetterTargetArn":"arn:aws:sqs:eu-west-1:000000000000:{name}","maxReceiveCount":"3"}}"#
    );
    let asking = queue.client.set_queue_attributes().queue_url(queue.url());
    asking.attributes(QueueAttributeName::RedrivePolicy, policy).send().await.unwrap();
    let source = source(&queue, "nack_delay=0s");
    let mut subscription = source.subscribe().await.unwrap();
    assert!(source.capabilities().keeps_parked);
    queue.send("not an event", Some("g"), &[("shop", "north")]).await;
    next(&mut subscription).await.receipt.park().await.unwrap();
    let parked = read(&queue.client, &dead).await.remove(0);
    assert_eq!(parked.body.as_deref(), Some("not an event"));
    let attributes = parked.message_attributes.unwrap();
    assert_eq!(attributes["shop"].string_value.as_deref(), Some("north"));
    assert_eq!(attributes["pillarbox-parked-queue"].string_value.as_ref(), Some(&queue.name));

    // The server itself moves what was given back too often.
    queue.send("again and again", Some("g"), &[]).await;
    for _ in 0..3 {
        next(&mut subscription).await.receipt.nack().await.unwrap();
    }
    eventually(SOON, async || queue.counts(&name).await.0 == 1).await;
}

#[tokio::test]
async fn what_is_parked_without_a_place_for_it_is_gone_and_the_next_one_comes() {
    let queue = OwnQueue::standard().await;
    let source = source(&queue, "prefetch=1");
    let mut subscription = source.subscribe().await.unwrap();
    assert!(!source.capabilities().keeps_parked);
    for body in ["1", "2"] {
        queue.send(body, None, &[]).await;
    }
    next(&mut subscription).await.receipt.park().await.unwrap();
    let second = next(&mut subscription).await;
    assert_eq!(second.body, b"2");
    second.receipt.ack().await.unwrap();
}

#[tokio::test]
async fn a_queue_for_parked_messages_that_is_missing_is_told_before_anything_is_received() {
    let queue = OwnQueue::standard().await;
    let error = source(&queue, "parked=missing-queue").subscribe().await.map(drop).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("parked=") && text.contains("missing-queue"), "{text}");
}

/// Otherwise what cannot be handled would be deleted, although the queue's owner wants to keep it.
#[tokio::test]
async fn a_redrive_policy_whose_queue_is_missing_is_told_before_anything_is_received() {
    let queue = OwnQueue::standard().await;
    let name = format!("{}-dead", queue.name);
    let dead = create(&queue.client, &name, &[]).await;
    let policy = format!(
        r#"{{"deadLetterTargetArn":"arn:aws:sqs:eu-west-1:000000000000:{name}","maxReceiveCount":"3"}}"#
    );
    let asking = queue.client.set_queue_attributes().queue_url(queue.url());
    asking.attributes(QueueAttributeName::RedrivePolicy, policy).send().await.unwrap();
    queue.client.delete_queue().queue_url(&dead).send().await.unwrap();
    let text = source(&queue, "").subscribe().await.map(drop).unwrap_err().to_string();
    assert!(text.contains("redrive policy") && text.contains("parked=") && text.contains(&name), "{text}");
}

/// SQS has attributes of its own beside the body. They are headers, whoever set them.
#[tokio::test]
async fn attributes_of_somebody_else_are_headers() {
    let queue = OwnQueue::standard().await;
    let source = source(&queue, "");
    let mut subscription = source.subscribe().await.unwrap();
    let event = r#"{"specversion":"1.0","id":"01932c07-a9f0-7000-8000-000000000001","type":"t","source":"/s","data":{"a": 1}}"#;
    queue.send(event, None, &[("AWSTraceHeader", "Root=1"), ("shop", "north")]).await;
    let message = next(&mut subscription).await;
    let received = Received::decode(message.attributes, message.headers, message.body).unwrap();
    assert_eq!((received.event_type.as_str(), received.payload.as_slice()), ("t", &b"{\"a\": 1}"[..]));
    assert_eq!(
        (received.headers["shop"].as_str(), received.headers["AWSTraceHeader"].as_str()),
        ("north", "Root=1")
    );
}
