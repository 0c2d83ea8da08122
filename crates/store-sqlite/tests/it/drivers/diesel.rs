//! diesel.

use async_trait::async_trait;
use diesel::connection::{AnsiTransactionManager, SimpleConnection, TransactionManager};
use diesel::{Connection, QueryableByName, RunQueryDsl, SqliteConnection};
use pillarbox_conformance::driver::{Act, End, Said};
use pillarbox_conformance::{DriverHarness, StoreHarness, diesel_acts};
use pillarbox_core::{ErrorKind, Event};

use super::{COUNT, Driver, On, PATIENCE, Place};

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
    const NAME: &'static str = "diesel on sqlite";

    async fn run(place: &Place, acts: Vec<Act<'_>>, end: End) -> Vec<Said> {
        let mut connection = SqliteConnection::establish(place.file.to_str().unwrap()).unwrap();
        let patience = format!("pragma busy_timeout = {}", PATIENCE.as_millis());
        connection.batch_execute(&patience).unwrap();
        inside(place, &mut connection, acts, end).await
    }
}

async fn inside(place: &Place, connection: &mut SqliteConnection, acts: Vec<Act<'_>>, end: End) -> Vec<Said> {
    diesel_acts!(inside, place, connection, acts, end, COUNT)
}

#[tokio::test]
async fn outside_of_a_transaction_diesel_stages_nothing() {
    let harness = On::<Diesel>::start().await;
    let outbox = harness.base().outbox("orders");
    let mut connection = SqliteConnection::establish(harness.file().to_str().unwrap()).unwrap();
    let event = || Event::new("order.placed", "{}");
    let refused = outbox.stage(&mut connection, event()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    assert_eq!(outbox.serialize(&mut connection, "k").unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(harness.base().number("select count(*) from pillarbox_outbox").await, 0);
    let work = |connection: &mut SqliteConnection| -> Result<(), Box<dyn std::error::Error>> {
        outbox.stage(connection, event())?;
        Ok(())
    };
    connection.immediate_transaction(work).unwrap();
    assert_eq!(harness.base().number("select count(*) from pillarbox_outbox").await, 1);
}
