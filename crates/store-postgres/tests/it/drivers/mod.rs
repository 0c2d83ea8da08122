//! The drivers that an outbox stages with and an inbox accepts with, each under the same suite.

#[cfg(feature = "diesel")]
mod diesel;
#[cfg(feature = "diesel-async")]
mod diesel_async;
#[cfg(feature = "sea-orm")]
mod sea_orm;
mod sqlx;
#[cfg(feature = "tokio-postgres")]
mod tokio_postgres;

use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_conformance::driver::{Act, End, Said};
use pillarbox_conformance::{DriverHarness, StoreHarness};
use pillarbox_core::{HybridClock, Ident};
use pillarbox_store_postgres::{Inbox, Outbox};

use crate::harness::{PostgresHarness, pooler, server};

/// Every transaction begins with it: nobody waits long for a lock.
const PATIENCE: &str = "set local lock_timeout = '500ms'";

/// What a driver does its acts with.
struct Place {
    url: String,
    /// Counts what is in the outbox, as text.
    count: String,
    outbox: Outbox,
    inbox: Inbox,
}

/// A driver: begins a transaction on a connection of its own, does the acts in it, and ends it.
#[async_trait(?Send)]
trait Driver: 'static {
    const NAME: &'static str;

    async fn run(place: &Place, acts: Vec<Act<'_>>, end: End) -> Vec<Said>;
}

/// A driver on a store, directly or through PgBouncer.
struct On<D, const POOLED: bool> {
    base: PostgresHarness<POOLED>,
    driver: PhantomData<D>,
}

type Direct<D> = On<D, false>;

#[async_trait(?Send)]
impl<D: Driver, const POOLED: bool> DriverHarness for On<D, POOLED> {
    type Base = PostgresHarness<POOLED>;

    const NAME: &'static str = D::NAME;

    async fn start() -> Self {
        Self { base: PostgresHarness::start().await, driver: PhantomData }
    }

    fn base(&self) -> &Self::Base {
        &self.base
    }

    fn stamped(outbox: Outbox, clock: HybridClock) -> Outbox {
        outbox.clock(Arc::new(clock))
    }

    fn missing(&self, route: &str) -> Outbox {
        Outbox::new(route).options(self.base.options.clone().prefix(Ident::new("missing").unwrap()))
    }

    async fn run(&self, outbox: Outbox, acts: Vec<Act<'_>>, end: End) -> Vec<Said> {
        let url = if POOLED { pooler() } else { server() };
        let count = self.base.sql("select count(*)::text as number from {s}.pillarbox_outbox").0;
        D::run(&Place { url, count, outbox, inbox: self.base.inbox() }, acts, end).await
    }
}
