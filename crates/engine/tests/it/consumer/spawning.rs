//! A consumer's future can be spawned when its handler owns what it uses: that this compiles is the test.

use std::sync::Arc;
use std::time::Duration;

use pillarbox_core::{Event, Received};
use pillarbox_engine::sink::HandlerError;
use pillarbox_testkit::{MemoryOutbox, MemoryStore, MemoryTx, eventually};

use super::rig::*;

fn is_send<T: Send>(future: T) -> T {
    future
}

async fn ignore(_tx: &mut MemoryTx, _event: Received) -> Result<(), HandlerError> {
    Ok(())
}

#[tokio::test]
async fn a_handler_that_is_a_function_can_be_spawned() {
    let broker = broker([1, 2]);
    let consumer = consumer(broker.source(QUEUE)).build().unwrap();
    let left = broker.clone();
    #[expect(clippy::disallowed_methods, reason = "spawning is what is tested")]
    let spawned = tokio::spawn(async move {
        let drained = eventually(SOON, async || left.ready(QUEUE) + left.unanswered(QUEUE) == 0);
        consumer.run(drained, ignore).await
    });
    assert_eq!(spawned.await.unwrap().unwrap().processed, 2);
}

#[tokio::test]
async fn a_handler_that_owns_what_it_uses_can_be_spawned() {
    let store = MemoryStore::new();
    let inbox = Arc::new(pillarbox_testkit::MemoryInbox::new(&store));
    let outbox = MemoryOutbox::new(&store, "invoices");
    let source = Arc::new(broker([1, 2]).source(QUEUE));
    let options = options(|options| options.idle = Some(Duration::from_millis(20)));
    #[expect(clippy::disallowed_methods, reason = "spawning is what is tested")]
    let spawned = tokio::spawn(async move {
        let consumer =
            pillarbox_engine::Consumer::builder(source, inbox).name("billing").options(options).build()?;
        is_send(consumer.run(std::future::pending(), async move |tx, event| {
            let invoice = event.causes(Event::new("invoice.sent", event.payload.clone()));
            let _ = outbox.stage(tx, invoice).await?;
            Ok(())
        }))
        .await
    });
    assert_eq!(spawned.await.unwrap().unwrap().processed, 2);
    assert_eq!(store.entries().len(), 2);
}
