//! SeaORM.

use async_trait::async_trait;
use pillarbox_conformance::driver::{Act, End, Said};
use pillarbox_conformance::{DriverHarness, StoreHarness, act};
use pillarbox_core::Event;
use sea_orm::{ConnectionTrait, Database, DatabaseTransaction, DbBackend, Statement, TransactionTrait};

use super::{COUNT, Driver, On, PATIENCE, Place};
use crate::steps::ROUTE;

struct SeaOrm;

pillarbox_conformance::driver_conformance!(super::On<SeaOrm>);

#[async_trait(?Send)]
impl Driver for SeaOrm {
    const NAME: &'static str = "sea-orm on mysql";

    async fn run(place: &Place, acts: Vec<Act<'_>>, end: End) -> Vec<Said> {
        let database = Database::connect(&place.url).await.unwrap();
        let tx = database.begin().await.unwrap();
        tx.execute_unprepared(PATIENCE).await.unwrap();
        let said = inside(place, tx, acts, end).await;
        database.close().await.unwrap();
        said
    }
}

async fn inside(place: &Place, mut tx: DatabaseTransaction, acts: Vec<Act<'_>>, end: End) -> Vec<Said> {
    let mut said = Vec::new();
    for act in acts {
        said.push(match act {
            Act::Count => {
                let count = Statement::from_string(DbBackend::MySql, COUNT);
                let row = tx.query_one_raw(count).await.unwrap().unwrap();
                Said::Counted(row.try_get_by_index::<String>(0).unwrap().parse().unwrap())
            }
            Act::Nested(acts, end) => {
                let nested = tx.begin().await.unwrap();
                Said::Nested(Box::pin(inside(place, nested, acts, end)).await)
            }
            act => act!(place.outbox, place.inbox, &mut tx, act, await),
        });
    }
    match end {
        End::Commit => tx.commit().await.unwrap(),
        End::RollBack => tx.rollback().await.unwrap(),
    }
    said
}

/// The callback of `transaction` has a shared reference only.
#[tokio::test]
async fn a_shared_reference_to_a_transaction_is_enough() {
    let harness = On::<SeaOrm>::start().await;
    let outbox = harness.base().outbox(ROUTE);
    let database = Database::connect(harness.base().database.url()).await.unwrap();
    let work = async |mut tx: &DatabaseTransaction| {
        outbox.stage(&mut tx, Event::new("order.placed", "{}")).await.map(|_| ())
    };
    database.transaction_async(work).await.unwrap();
    assert_eq!(harness.base().database.number("select count(*) from pillarbox_outbox").await, 1);
}
