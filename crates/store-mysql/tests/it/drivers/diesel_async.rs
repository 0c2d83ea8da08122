//! diesel-async.

use async_trait::async_trait;
use diesel::{QueryableByName, sql_query};
use diesel_async::{
    AnsiTransactionManager, AsyncConnection, AsyncMysqlConnection, RunQueryDsl, SimpleAsyncConnection,
    TransactionManager,
};
use pillarbox_conformance::driver::{Act, End, Said};
use pillarbox_conformance::{DriverHarness, StoreHarness, act};
use pillarbox_core::{ErrorKind, Event};

use super::{COUNT, Driver, On, PATIENCE, Place};
use crate::steps::ROUTE;

struct DieselAsync;

/// What counts the outbox.
#[derive(QueryableByName)]
struct Counted {
    #[diesel(sql_type = diesel::sql_types::Text)]
    number: String,
}

pillarbox_conformance::driver_conformance!(super::On<DieselAsync>);

#[async_trait(?Send)]
impl Driver for DieselAsync {
    const NAME: &'static str = "diesel-async on mysql";

    async fn run(place: &Place, acts: Vec<Act<'_>>, end: End) -> Vec<Said> {
        let mut connection = AsyncMysqlConnection::establish(&place.url).await.unwrap();
        inside(place, &mut connection, acts, end).await
    }
}

async fn inside(
    place: &Place,
    connection: &mut AsyncMysqlConnection,
    acts: Vec<Act<'_>>,
    end: End,
) -> Vec<Said> {
    AnsiTransactionManager::begin_transaction(connection).await.unwrap();
    connection.batch_execute(PATIENCE).await.unwrap();
    let mut said = Vec::new();
    for act in acts {
        said.push(match act {
            Act::Count => {
                let counted: Counted = sql_query(COUNT).get_result(connection).await.unwrap();
                Said::Counted(counted.number.parse().unwrap())
            }
            Act::Nested(acts, end) => Said::Nested(Box::pin(inside(place, connection, acts, end)).await),
            act => act!(place.outbox, place.inbox, connection, act, await),
        });
    }
    match end {
        End::Commit => AnsiTransactionManager::commit_transaction(connection).await.unwrap(),
        End::RollBack => AnsiTransactionManager::rollback_transaction(connection).await.unwrap(),
    }
    said
}

#[tokio::test]
async fn outside_of_a_transaction_diesel_async_stages_nothing() {
    let harness = On::<DieselAsync>::start().await;
    let outbox = harness.base().outbox(ROUTE);
    let mut connection = AsyncMysqlConnection::establish(&harness.base().database.url()).await.unwrap();
    let event = || Event::new("order.placed", "{}");
    let refused = outbox.stage(&mut connection, event()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    assert_eq!(outbox.serialize(&mut connection, "k").await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(harness.base().database.number("select count(*) from pillarbox_outbox").await, 0);
    let work =
        async |connection: &mut AsyncMysqlConnection| -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
            outbox.stage(connection, event()).await?;
            Ok(())
        };
    connection.transaction(work).await.unwrap();
    assert_eq!(harness.base().database.number("select count(*) from pillarbox_outbox").await, 1);
}
