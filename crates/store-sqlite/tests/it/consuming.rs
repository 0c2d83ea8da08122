//! The suite for consuming: the inbox in a file, under the engine's consumer, with the broker in memory.

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_conformance::{InboxHarness, MemoryBrokerHarness, Ruin, StoreHarness};
use pillarbox_core::port::{Admin, Entropy, Filter};
use pillarbox_core::{Entry, Event, Hlc, RouteName};
use pillarbox_engine::Consumer;
use pillarbox_engine::sink::HandlerError;
use pillarbox_host::{OsEntropy, process_clock};
use pillarbox_store_sqlite::Inbox;
use pillarbox_testkit::{MemoryBroker, Published, sample_entry};
use sqlx::{Sqlite, Transaction};

use crate::harness::SqliteHarness;

struct Effects(SqliteHarness);

#[async_trait]
impl InboxHarness for Effects {
    type Inbox = Inbox;

    const NAME: &'static str = "sqlite inbox";

    async fn start() -> Self {
        let harness = SqliteHarness::start().await;
        harness.execute("create table own (id integer primary key); insert into own values (1)").await;
        Self(harness)
    }

    fn inbox(&self) -> Arc<Inbox> {
        Arc::new(self.0.inbox())
    }

    async fn apply(&self, tx: &mut Transaction<'static, Sqlite>, event: Event) -> Result<(), HandlerError> {
        let _ = self.0.outbox("effects").stage(tx, event).await?;
        Ok(())
    }

    async fn applied(&self) -> Vec<Entry> {
        self.0.store().list(Filter::default()).await.unwrap()
    }

    async fn violate(&self, tx: &mut Transaction<'static, Sqlite>) -> Result<(), HandlerError> {
        let violated = sqlx::query("insert into own values (1)").execute(&mut **tx).await.unwrap_err();
        Err(HandlerError::retry("unique_violation", violated.to_string()))
    }

    async fn ruin(&self, tx: &mut Transaction<'static, Sqlite>, how: Ruin) -> bool {
        SqliteHarness::ruin(tx, how).await
    }

    fn concurrent_writers(&self) -> bool {
        false
    }
}

pillarbox_conformance::consumer_conformance!(MemoryBrokerHarness, Effects);

/// The outbox and the consumer go by the clock of the process: no clock is passed around.
#[tokio::test]
async fn what_a_handler_stages_is_stamped_after_what_it_reacts_to() {
    let (effects, broker) = (Arc::new(Effects::start().await), MemoryBroker::new());
    let cause = Event::new("order.placed", "1").id(OsEntropy.event_id());
    let mut message = Published::of(&sample_entry(RouteName::new("orders").unwrap(), cause));
    let ahead = Hlc::from_raw(process_clock().now().raw() + (120_000 << 16)).unwrap();
    message.attributes.insert("pillarboxhlc".into(), ahead.to_string());
    broker.publish("orders", message);
    let consumer = Consumer::builder(Arc::new(broker.source("orders")), effects.inbox()).name("billing");
    let (done, mut finished) = tokio::sync::mpsc::unbounded_channel();
    let handler = Arc::clone(&effects);
    let tally = consumer
        .build()
        .unwrap()
        .run(async move { finished.recv().await.unwrap() }, async move |tx, event| {
            handler.apply(tx, event.causes(Event::new("applied", "1"))).await?;
            done.send(()).unwrap();
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!(tally.processed, 1);
    assert!(effects.applied().await[0].hlc > Some(ahead));
}
