//! diesel, through the client library of MariaDB or MySQL.

use async_trait::async_trait;
use diesel::connection::{AnsiTransactionManager, SimpleConnection, TransactionManager};
use diesel::{Connection, MysqlConnection, QueryableByName, RunQueryDsl, sql_query};
use pillarbox_conformance::driver::{Act, End, Said};
use pillarbox_conformance::{DriverHarness, StoreHarness, diesel_acts};
use pillarbox_core::{ErrorKind, Event, Retry};
use pillarbox_store_mysql::Outbox;

use super::{COUNT, Driver, On, PATIENCE, Place};
use crate::steps::ROUTE;

struct Diesel;

/// A number that the database said, as text.
#[derive(QueryableByName)]
struct Counted {
    #[diesel(sql_type = diesel::sql_types::Text)]
    number: String,
}

pillarbox_conformance::driver_conformance!(super::On<Diesel>);

#[async_trait(?Send)]
impl Driver for Diesel {
    const NAME: &'static str = "diesel on mysql";

    async fn run(place: &Place, acts: Vec<Act<'_>>, end: End) -> Vec<Said> {
        let mut connection = MysqlConnection::establish(&place.url).unwrap();
        inside(place, &mut connection, acts, end).await
    }
}

async fn inside(place: &Place, connection: &mut MysqlConnection, acts: Vec<Act<'_>>, end: End) -> Vec<Said> {
    diesel_acts!(inside, place, connection, acts, end, COUNT, connection.batch_execute(PATIENCE).unwrap())
}

#[tokio::test]
async fn outside_of_a_transaction_diesel_stages_nothing() {
    let harness = On::<Diesel>::start().await;
    let outbox = harness.base().outbox(ROUTE);
    let mut connection = MysqlConnection::establish(&harness.base().database.url()).unwrap();
    let event = || Event::new("order.placed", "{}");
    let refused = outbox.stage(&mut connection, event()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    assert_eq!(outbox.serialize(&mut connection, "k").unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(harness.base().database.number("select count(*) from pillarbox_outbox").await, 0);
    let work = |connection: &mut MysqlConnection| -> Result<(), Box<dyn std::error::Error>> {
        outbox.stage(connection, event())?;
        Ok(())
    };
    connection.transaction(work).unwrap();
    assert_eq!(harness.base().database.number("select count(*) from pillarbox_outbox").await, 1);
}

#[tokio::test]
async fn a_connection_that_the_server_ended_is_unavailable_for_diesel() {
    let harness = On::<Diesel>::start().await;
    let url = harness.base().database.url();
    let mut connection = MysqlConnection::establish(&url).unwrap();
    AnsiTransactionManager::begin_transaction(&mut connection).unwrap();
    let id = "select cast(connection_id() as char) as number";
    let id: Counted = sql_query(id).get_result(&mut connection).unwrap();
    MysqlConnection::establish(&url).unwrap().batch_execute(&format!("kill {}", id.number)).unwrap();
    let stage = |connection: &mut MysqlConnection| {
        Outbox::new(ROUTE).stage(connection, Event::new("order.placed", "{}"))
    };
    let error = stage(&mut connection).unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, Retry::Later), "{error}");
}
