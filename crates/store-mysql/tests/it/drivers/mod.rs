//! The drivers that an outbox stages with and an inbox accepts with, each under the same suite.

#[cfg(feature = "diesel")]
mod diesel;
#[cfg(feature = "diesel-async")]
mod diesel_async;
#[cfg(feature = "sea-orm")]
mod sea_orm;
mod sqlx;

use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_conformance::driver::{Act, End, Said};
use pillarbox_conformance::{DriverHarness, StoreHarness};
use pillarbox_core::{HybridClock, Ident};
use pillarbox_store_mysql::{Inbox, Outbox};

use crate::harness::MySqlHarness;

/// Every connection begins with it: nobody waits long for a lock.
const PATIENCE: &str = "set session innodb_lock_wait_timeout = 1";
/// Counts what is in the outbox, as text.
const COUNT: &str = "select cast(count(*) as char) as number from pillarbox_outbox";

/// What a driver does its acts with.
struct Place {
    url: String,
    outbox: Outbox,
    inbox: Inbox,
}

/// A driver: begins a transaction on a connection of its own, does the acts in it, and ends it.
#[async_trait(?Send)]
trait Driver: 'static {
    const NAME: &'static str;

    async fn run(place: &Place, acts: Vec<Act<'_>>, end: End) -> Vec<Said>;
}

/// A driver on a store.
struct On<D> {
    base: MySqlHarness,
    driver: PhantomData<D>,
}

#[async_trait(?Send)]
impl<D: Driver> DriverHarness for On<D> {
    type Base = MySqlHarness;

    const NAME: &'static str = D::NAME;

    async fn start() -> Self {
        Self { base: MySqlHarness::start().await, driver: PhantomData }
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
        let place = Place { url: self.base.database.url(), outbox, inbox: self.base.inbox() };
        D::run(&place, acts, end).await
    }
}
