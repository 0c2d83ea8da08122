//! The suite for consuming: the inbox on a real server, under the engine's consumer, with the broker in memory.

use std::sync::Arc;

use async_trait::async_trait;
use mongodb::ClientSession;
use mongodb::bson::{Document, doc};
use pillarbox_conformance::{InboxHarness, Ruin, StoreHarness};
use pillarbox_core::port::{Admin, Filter};
use pillarbox_core::{Entry, Event};
use pillarbox_engine::sink::HandlerError;
use pillarbox_store_mongodb::{Inbox, Options};

use crate::harness::MongoHarness;

struct Effects(MongoHarness);

#[async_trait]
impl InboxHarness for Effects {
    type Inbox = Inbox;

    const NAME: &'static str = "mongodb inbox";

    async fn start() -> Self {
        let harness = MongoHarness::with(Options::default().connections(8)).await;
        harness.database.open().collection::<Document>("own").insert_one(doc! { "_id": 1 }).await.unwrap();
        Self(harness)
    }

    fn inbox(&self) -> Arc<Inbox> {
        Arc::new(self.0.inbox())
    }

    async fn apply(&self, tx: &mut ClientSession, event: Event) -> Result<(), HandlerError> {
        let _ = self.0.outbox("effects").stage(tx, event).await?;
        Ok(())
    }

    async fn applied(&self) -> Vec<Entry> {
        self.0.store().list(Filter::default()).await.unwrap()
    }

    async fn violate(&self, tx: &mut ClientSession) -> Result<(), HandlerError> {
        let own = tx.client().database(&self.0.database.name).collection::<Document>("own");
        let violated = own.insert_one(doc! { "_id": 1 }).session(tx).await.unwrap_err();
        Err(HandlerError::retry("unique_violation", violated.to_string()))
    }

    async fn ruin(&self, tx: &mut ClientSession, how: Ruin) -> bool {
        MongoHarness::ruin(tx, how).await
    }
}

pillarbox_conformance::consumer_conformance!(pillarbox_conformance::MemoryBrokerHarness, Effects);

#[tokio::test]
async fn what_a_handler_stages_is_stamped_after_what_it_reacts_to() {
    pillarbox_conformance::consumer::the_process_has_one_clock::<Effects>().await;
}
