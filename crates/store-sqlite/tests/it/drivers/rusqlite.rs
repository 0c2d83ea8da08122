//! rusqlite.

use async_trait::async_trait;
use pillarbox_conformance::driver::{Act, End, Said};
use pillarbox_conformance::{DriverHarness, StoreHarness, act};
use pillarbox_core::Event;
use pillarbox_store_sqlite::Transaction as AnyTransaction;
use rusqlite::{Connection, Savepoint, Transaction};

use super::{COUNT, Driver, On, PATIENCE, Place};

struct Rusqlite;

pillarbox_conformance::driver_conformance!(super::On<Rusqlite>);

#[async_trait(?Send)]
impl Driver for Rusqlite {
    const NAME: &'static str = "rusqlite";

    async fn run(place: &Place, acts: Vec<Act<'_>>, end: End) -> Vec<Said> {
        let mut connection = Connection::open(&place.file).unwrap();
        connection.busy_timeout(PATIENCE).unwrap();
        let mut tx = connection.transaction().unwrap();
        let mut said = Vec::new();
        for act in acts {
            said.push(match act {
                Act::Count => count(&tx),
                Act::Nested(acts, end) => {
                    Said::Nested(nested(place, tx.savepoint().unwrap(), acts, end).await)
                }
                act => act!(place.outbox, place.inbox, &mut tx, act),
            });
        }
        match end {
            End::Commit => tx.commit().unwrap(),
            End::RollBack => tx.rollback().unwrap(),
        }
        said
    }
}

/// A savepoint is a type of its own here.
async fn nested(place: &Place, mut savepoint: Savepoint<'_>, acts: Vec<Act<'_>>, end: End) -> Vec<Said> {
    let mut said = Vec::new();
    for act in acts {
        said.push(match act {
            Act::Count => count(&savepoint),
            act => act!(place.outbox, place.inbox, &mut savepoint, act),
        });
    }
    match end {
        End::Commit => savepoint.commit().unwrap(),
        End::RollBack => {
            savepoint.rollback().unwrap();
            savepoint.finish().unwrap();
        }
    }
    said
}

fn count(connection: &Connection) -> Said {
    let count: String = connection.query_row(COUNT, [], |row| row.get(0)).unwrap();
    Said::Counted(count.parse().unwrap())
}

/// A function that was given the transaction has a shared reference only.
#[tokio::test]
async fn a_shared_reference_to_a_transaction_is_enough() {
    fn is_one(_: &impl AnyTransaction) {}
    let harness = On::<Rusqlite>::start().await;
    let outbox = harness.base().outbox("orders");
    let place = |mut tx: &Transaction<'_>| {
        is_one(&tx);
        outbox.stage(&mut tx, Event::new("order.placed", "{}"))
    };
    let mut connection = Connection::open(harness.file()).unwrap();
    let tx = connection.transaction().unwrap();
    assert!(!place(&tx).unwrap().is_duplicate());
    tx.commit().unwrap();
    assert_eq!(harness.base().number("select count(*) from pillarbox_outbox").await, 1);
}
