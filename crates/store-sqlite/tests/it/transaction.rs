//! An operation with a buffer, in a transaction that the outbox begins and ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{Admin, Filter, Wake};
use pillarbox_core::{Error, ErrorKind, Event};

use crate::harness::SqliteHarness;
use crate::steps::ROUTE;

struct Counter(AtomicU32);

impl Wake for Counter {
    fn wake(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn placed(number: u32) -> Event {
    Event::json("order.placed", &number).unwrap()
}

#[tokio::test]
async fn what_an_operation_collected_is_committed_with_it_and_wakes_the_relay() {
    let harness = SqliteHarness::start().await;
    harness.execute("create table mine (id)").await;
    let counter = Arc::new(Counter(AtomicU32::new(0)));
    let outbox = harness.outbox(ROUTE).wake(counter.clone());
    let store = harness.store();
    let operation = outbox.transaction(&*store, async |tx, buffer| {
        sqlx::query("insert into mine values (1)").execute(&mut **tx).await.unwrap();
        buffer.stage(placed(1))?;
        buffer.stage(placed(2))?;
        Ok::<_, Error>(buffer.len())
    });
    assert_eq!(operation.await.unwrap(), 2);
    // On a pool of the application's, and with a flush of its own, to see the outcomes.
    let operation = outbox.transaction(store.pool(), async |tx, buffer| {
        buffer.stage(placed(3))?;
        buffer.flush(&outbox, tx).await
    });
    assert!(!operation.await.unwrap()[0].is_duplicate());
    assert_eq!(outbox.transaction(&*store, async |_, _| Ok::<_, Error>(7)).await.unwrap(), 7);
    assert_eq!(store.list(Filter::default()).await.unwrap().len(), 3);
    assert_eq!(counter.0.load(Ordering::SeqCst), 3);
    assert_eq!(
        sqlx::query_scalar::<_, i64>("select count(*) from mine").fetch_one(store.pool()).await.unwrap(),
        1
    );
}

#[tokio::test]
async fn an_operation_that_fails_leaves_neither_its_write_nor_its_events() {
    let harness = SqliteHarness::start().await;
    harness.execute("create table mine (id)").await;
    let (outbox, store) = (harness.outbox(ROUTE), harness.store());
    let write = "insert into mine values (1)";
    let operation = outbox.transaction(&*store, async |tx, buffer| {
        sqlx::query(write).execute(&mut **tx).await.unwrap();
        buffer.stage(placed(1))?;
        Err::<(), _>(Error::invalid("changed its mind"))
    });
    assert_eq!(operation.await.unwrap_err().to_string(), Error::invalid("changed its mind").to_string());
    // What cannot be staged is noticed at the end.
    let operation = outbox.transaction(&*store, async |tx, buffer| {
        sqlx::query(write).execute(&mut **tx).await.unwrap();
        buffer.stage(placed(1))?;
        buffer.stage(placed(2).key(""))
    });
    assert_eq!(operation.await.unwrap_err().kind(), ErrorKind::Invalid);
    assert!(store.list(Filter::default()).await.unwrap().is_empty());
    assert_eq!(
        sqlx::query_scalar::<_, i64>("select count(*) from mine").fetch_one(store.pool()).await.unwrap(),
        0
    );
}
