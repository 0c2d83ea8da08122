//! The suite for consuming: the inbox on a real server, under the engine's consumer, with the broker in memory.

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_conformance::{InboxHarness, Ruin, StoreHarness};
use pillarbox_core::port::{Admin, Filter};
use pillarbox_core::{Entry, Event};
use pillarbox_engine::sink::HandlerError;
use pillarbox_store_mysql::{Inbox, Options};
use sqlx::{MySql, Transaction};

use crate::harness::MySqlHarness;

struct Effects(MySqlHarness);

#[async_trait]
impl InboxHarness for Effects {
    type Inbox = Inbox;

    const NAME: &'static str = "mysql inbox";

    async fn start() -> Self {
        let harness = MySqlHarness::with(Options::default().connections(8)).await;
        harness
            .database
            .execute("create table own (id integer primary key); insert into own values (1)")
            .await;
        Self(harness)
    }

    fn inbox(&self) -> Arc<Inbox> {
        Arc::new(self.0.inbox())
    }

    async fn apply(&self, tx: &mut Transaction<'static, MySql>, event: Event) -> Result<(), HandlerError> {
        let _ = self.0.outbox("effects").stage(tx, event).await?;
        Ok(())
    }

    async fn applied(&self) -> Vec<Entry> {
        self.0.store().list(Filter::default()).await.unwrap()
    }

    async fn violate(&self, tx: &mut Transaction<'static, MySql>) -> Result<(), HandlerError> {
        let violated = sqlx::raw_sql("insert into own values (1)").execute(&mut **tx).await.unwrap_err();
        Err(HandlerError::retry("unique_violation", violated.to_string()))
    }

    async fn ruin(&self, tx: &mut Transaction<'static, MySql>, how: Ruin) -> bool {
        MySqlHarness::ruin(tx, how).await
    }
}

pillarbox_conformance::consumer_conformance!(pillarbox_conformance::MemoryBrokerHarness, Effects);

#[tokio::test]
async fn what_a_handler_stages_is_stamped_after_what_it_reacts_to() {
    pillarbox_conformance::consumer::the_process_has_one_clock::<Effects>().await;
}
