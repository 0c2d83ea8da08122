//! The suite for consuming: the inbox on a real server, under the engine's consumer, with the broker in memory.

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_conformance::{InboxHarness, Ruin, StoreHarness};
use pillarbox_core::port::{AcceptRequest, Accepted, Admin, Entropy, Filter, Origin, Position, Transactions};
use pillarbox_core::{Entry, Event, Fence};
use pillarbox_engine::sink::HandlerError;
use pillarbox_host::OsEntropy;
use pillarbox_store_postgres::Inbox;
use sqlx::{Postgres, Transaction};

use crate::harness::{Direct, PostgresHarness};

struct Effects<const POOLED: bool>(PostgresHarness<POOLED>);

#[async_trait]
impl<const POOLED: bool> InboxHarness for Effects<POOLED> {
    type Inbox = Inbox;

    const NAME: &'static str = if POOLED { "postgres inbox through pgbouncer" } else { "postgres inbox" };

    async fn start() -> Self {
        let harness = PostgresHarness::with(PostgresHarness::<POOLED>::fresh().connections(8)).await;
        harness
            .execute("create table {s}.own (id integer primary key); insert into {s}.own values (1)")
            .await;
        Self(harness)
    }

    fn inbox(&self) -> Arc<Inbox> {
        Arc::new(self.0.inbox())
    }

    async fn apply(&self, tx: &mut Transaction<'static, Postgres>, event: Event) -> Result<(), HandlerError> {
        let _ = self.0.outbox("effects").stage(tx, event).await?;
        Ok(())
    }

    async fn applied(&self) -> Vec<Entry> {
        self.0.store().list(Filter::default()).await.unwrap()
    }

    async fn violate(&self, tx: &mut Transaction<'static, Postgres>) -> Result<(), HandlerError> {
        let insert = sqlx::raw_sql(self.0.sql("insert into {s}.own values (1)"));
        let violated = insert.execute(&mut **tx).await.unwrap_err();
        Err(HandlerError::retry("unique_violation", violated.to_string()))
    }

    async fn ruin(&self, tx: &mut Transaction<'static, Postgres>, how: Ruin) -> bool {
        PostgresHarness::<POOLED>::ruin(tx, how).await
    }
}

mod direct {
    pillarbox_conformance::consumer_conformance!(
        pillarbox_conformance::MemoryBrokerHarness,
        super::Effects<false>
    );
}

mod pooled {
    pillarbox_conformance::consumer_conformance!(
        pillarbox_conformance::MemoryBrokerHarness,
        super::Effects<true>
    );
}

#[tokio::test]
async fn an_owner_is_remembered_while_another_inbox_of_the_database_remembers_one_of_that_name() {
    let (harness, other) = (Direct::start().await, Direct::start().await);
    let (inbox, other) = (harness.inbox(), other.inbox());
    let request = || {
        let position = Position { stream: "s".into(), offset: 1 };
        let origin = Origin { lane: "shop orders/3".into(), fence: Fence(7), position };
        AcceptRequest::new("billing", OsEntropy.event_id()).origin(Some(origin))
    };
    let mut held = other.begin().await.unwrap();
    assert_eq!(other.accept(&mut held, request()).await.unwrap(), Accepted::Fresh);
    let mut tx = inbox.begin().await.unwrap();
    assert_eq!(inbox.accept(&mut tx, request()).await.unwrap(), Accepted::Fresh);
    inbox.commit(tx).await.unwrap();
    assert_eq!(harness.number("select fence from {s}.pillarbox_inbox_fence").await, 7);
    held.rollback().await.unwrap();
}

#[tokio::test]
async fn what_a_handler_stages_is_stamped_after_what_it_reacts_to() {
    pillarbox_conformance::consumer::the_process_has_one_clock::<Effects<false>>().await;
}
