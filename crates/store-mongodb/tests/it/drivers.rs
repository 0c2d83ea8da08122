//! The driver that an outbox stages with and an inbox accepts with, under the suite for drivers. A
//! transaction is that of a session.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mongodb::bson::{Document, doc};
use pillarbox_conformance::driver::{Act, End, Said};
use pillarbox_conformance::{DriverHarness, StoreHarness, act};
use pillarbox_core::{HybridClock, Ident};
use pillarbox_store_mongodb::{Options, Outbox};

use crate::harness::MongoHarness;

/// Nobody waits longer for another transaction, where it waits at all.
const PATIENCE: Duration = Duration::from_secs(1);

/// Sessions of a client of the application's own.
struct Sessions(MongoHarness);

// A transaction of MongoDB has no savepoints.
pillarbox_conformance::driver_conformance!(Sessions, no savepoints);

#[async_trait(?Send)]
impl DriverHarness for Sessions {
    type Base = MongoHarness;

    const NAME: &'static str = "mongodb driver";

    async fn start() -> Self {
        Self(MongoHarness::with(Options::default().causal_order(true).lock_timeout(PATIENCE)).await)
    }

    fn base(&self) -> &Self::Base {
        &self.0
    }

    fn stamped(outbox: Outbox, clock: HybridClock) -> Outbox {
        outbox.clock(Arc::new(clock))
    }

    fn missing(&self, route: &str) -> Outbox {
        Outbox::new(route).options(self.0.options.clone().prefix(Ident::new("missing").unwrap()))
    }

    async fn run(&self, outbox: Outbox, acts: Vec<Act<'_>>, end: End) -> Vec<Said> {
        let (inbox, mut session) = (self.0.inbox(), self.0.begin().await);
        let mut said = Vec::new();
        for act in acts {
            said.push(match act {
                Act::Count => {
                    let entries = self.0.database.open().collection::<Document>("pillarbox_outbox");
                    let count = entries.count_documents(doc! {}).session(&mut session).await.unwrap();
                    Said::Counted(i64::try_from(count).unwrap())
                }
                Act::Nested(..) => panic!("transactions of MongoDB have no savepoints"),
                act => act!(outbox, inbox, &mut session, act, await),
            });
        }
        match end {
            End::Commit => self.0.commit(session).await,
            End::RollBack => self.0.rollback(session).await,
        }
        said
    }
}
