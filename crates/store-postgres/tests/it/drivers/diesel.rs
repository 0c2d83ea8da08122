//! diesel, through libpq.

use async_trait::async_trait;
use diesel::connection::{AnsiTransactionManager, SimpleConnection, TransactionManager};
use diesel::{Connection, PgConnection, QueryableByName, RunQueryDsl, sql_query};
use pillarbox_conformance::driver::{Act, End, Said};
use pillarbox_conformance::{DriverHarness, StoreHarness, diesel_acts};
use pillarbox_core::{ErrorKind, Event, Retry};
use pillarbox_store_postgres::Outbox;

use super::{Direct, Driver, PATIENCE, Place};
use crate::harness::server;
use crate::steps::ROUTE;

struct Diesel;

/// A number that the database said, as text.
#[derive(QueryableByName)]
struct Counted {
    #[diesel(sql_type = diesel::sql_types::Text)]
    number: String,
}

pillarbox_conformance::driver_conformance!(super::Direct<Diesel>);

#[async_trait(?Send)]
impl Driver for Diesel {
    const NAME: &'static str = "diesel on postgres";

    async fn run(place: &Place, acts: Vec<Act<'_>>, end: End) -> Vec<Said> {
        let mut connection = PgConnection::establish(&place.url).unwrap();
        inside(place, &mut connection, acts, end).await
    }
}

async fn inside(place: &Place, connection: &mut PgConnection, acts: Vec<Act<'_>>, end: End) -> Vec<Said> {
    diesel_acts!(
        inside,
        place,
        connection,
        acts,
        end,
        &place.count,
        connection.batch_execute(PATIENCE).unwrap()
    )
}

#[tokio::test]
async fn outside_of_a_transaction_diesel_stages_nothing() {
    let harness = Direct::<Diesel>::start().await;
    let outbox = harness.base().outbox(ROUTE);
    let mut connection = PgConnection::establish(&server()).unwrap();
    let event = || Event::new("order.placed", "{}");
    let refused = outbox.stage(&mut connection, event()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    assert_eq!(outbox.serialize(&mut connection, "k").unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(harness.base().number("select count(*) from {s}.pillarbox_outbox").await, 0);
    let work = |connection: &mut PgConnection| -> Result<(), Box<dyn std::error::Error>> {
        outbox.stage(connection, event())?;
        Ok(())
    };
    connection.transaction(work).unwrap();
    assert_eq!(harness.base().number("select count(*) from {s}.pillarbox_outbox").await, 1);
}

#[test]
fn a_connection_that_the_server_ended_is_unavailable_for_diesel() {
    let mut connection = PgConnection::establish(&server()).unwrap();
    AnsiTransactionManager::begin_transaction(&mut connection).unwrap();
    let pid: Counted =
        sql_query("select pg_backend_pid()::text as number").get_result(&mut connection).unwrap();
    let end = format!("select pg_terminate_backend({}, 5000)", pid.number);
    PgConnection::establish(&server()).unwrap().batch_execute(&end).unwrap();
    let stage = |connection: &mut PgConnection| {
        Outbox::new(ROUTE).stage(connection, Event::new("order.placed", "{}"))
    };
    let error = stage(&mut connection).unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, Retry::Later), "{error}");
    // From here on diesel itself knows that nothing of this transaction is left.
    let error = stage(&mut connection).unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Aborted, Retry::Later), "{error}");
}
