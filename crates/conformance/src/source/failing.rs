//! A lost stream is reported, and so is a missing queue or stream.

use futures_util::FutureExt as _;
use pillarbox_core::port::{Source, Subscription};
use pillarbox_core::{Error, ErrorKind};

use super::steps::*;
use crate::case::skip;
use crate::consumer::SourceHarness;
use crate::delivery::SOON;

/// What was not answered comes again on the next one.
pub async fn a_lost_connection_is_told_and_the_next_subscription_goes_on(harness: &dyn SourceHarness) {
    let ids = publish(harness, 2).await;
    let source = source_with(harness, Wanted::UnansweredSoon);
    let mut subscription = source.subscribe().await.unwrap();
    next(&mut subscription).await.receipt.ack().await.unwrap();
    let held = next(&mut subscription).await;
    handed_out(harness, 1).await;
    if !harness.cut().await {
        return skip("the harness cannot cut a stream");
    }
    // Of a broker that delivers late what it had sent before, the second may come first.
    let lost = loop {
        match tokio::time::timeout(SOON, subscription.next()).await.expect("told") {
            Ok(Some(message)) => assert_eq!(id(&message), ids[1]),
            lost => break lost,
        }
    };
    assert_eq!(lost.err().map(|error| error.kind()), Some(ErrorKind::Unavailable));
    drop((held, subscription));
    let mut again = subscribe_again(&*source).await;
    let mut message = next(&mut again).await;
    // A broker that does not say what is unanswered may not have had the first acknowledgement before the cut.
    if harness.unanswered().await.is_none() && id(&message) == ids[0] {
        message = next(&mut again).await;
    }
    assert_eq!(id(&message), ids[1]);
    assert_ne!(message.delivery_count, Some(1));
}

/// Subscribes as a consumer does after a loss: a source with several connections may notice it for each of them.
async fn subscribe_again(source: &dyn Source) -> Box<dyn Subscription> {
    let subscribing = async {
        loop {
            match source.subscribe().await {
                Ok(subscription) => return subscription,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, subscribing).await.expect("subscribed in the end")
}

/// The subscription ends, and the next one makes the group.
pub async fn a_deleted_group_ends_the_subscription_and_is_made_again(harness: &dyn SourceHarness) {
    let source = source_with(harness, Wanted::UnansweredSoon);
    let mut subscription = source.subscribe().await.unwrap();
    assert!(subscription.next().now_or_never().is_none());
    if !harness.delete_group().await {
        return skip("the source makes nothing that could be deleted");
    }
    let ended = tokio::time::timeout(SOON, subscription.next()).await.expect("told");
    let kind = ended.err().map(|error| error.kind());
    assert!(matches!(kind, Some(ErrorKind::Unavailable | ErrorKind::NotFound)), "{kind:?}");
    let ids = publish(harness, 1).await;
    let mut subscription = source.subscribe().await.unwrap();
    assert_eq!(id(&next(&mut subscription).await), ids[0]);
}

async fn refused(harness: &dyn SourceHarness, wanted: Wanted) -> Option<Error> {
    let Some(source) = harness.source_with(wanted) else {
        skip("the harness has no such source");
        return None;
    };
    match source.subscribe().await {
        Ok(_) => panic!("subscribed"),
        Err(error) => Some(error),
    }
}

/// Waiting does not mend it.
pub async fn what_is_not_there_is_not_found_and_named(harness: &dyn SourceHarness) {
    let Some(error) = refused(harness, Wanted::Missing).await else { return };
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains("missing"), "{error}");
}

/// Waiting may mend it.
pub async fn a_server_that_nobody_finds_is_unavailable(harness: &dyn SourceHarness) {
    let Some(error) = refused(harness, Wanted::Nobody).await else { return };
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}
