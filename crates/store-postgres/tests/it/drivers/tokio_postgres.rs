//! tokio-postgres, directly and through PgBouncer.

use async_trait::async_trait;
use pillarbox_conformance::act;
use pillarbox_conformance::driver::{Act, End, Said};
use pillarbox_core::{ErrorKind, Event, Retry};
use pillarbox_store_postgres::Outbox;
use tokio_postgres::{NoTls, Transaction};

use super::{Driver, PATIENCE, Place};
use crate::harness::server;
use crate::steps::ROUTE;

struct TokioPostgres;

mod direct {
    pillarbox_conformance::driver_conformance!(crate::drivers::Direct<super::TokioPostgres>);
}

mod pooled {
    pillarbox_conformance::driver_conformance!(crate::drivers::On<super::TokioPostgres, true>);
}

#[async_trait(?Send)]
impl Driver for TokioPostgres {
    const NAME: &'static str = "tokio-postgres";

    async fn run(place: &Place, acts: Vec<Act<'_>>, end: End) -> Vec<Said> {
        let (mut client, connection) = tokio_postgres::connect(&place.url, NoTls).await.unwrap();
        let work = async {
            let tx = client.transaction().await.unwrap();
            tx.batch_execute(PATIENCE).await.unwrap();
            let said = inside(place, tx, acts, end).await;
            // The connection ends with its client.
            drop(client);
            said
        };
        let (said, ended) = tokio::join!(work, connection);
        ended.unwrap();
        said
    }
}

async fn inside(place: &Place, mut tx: Transaction<'_>, acts: Vec<Act<'_>>, end: End) -> Vec<Said> {
    let mut said = Vec::new();
    for act in acts {
        said.push(match act {
            Act::Count => {
                let row = tx.query_typed(&place.count, &[]).await.unwrap().remove(0);
                Said::Counted(row.get::<_, String>(0).parse().unwrap())
            }
            Act::Nested(acts, end) => {
                let nested = tx.transaction().await.unwrap();
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

#[tokio::test]
async fn a_connection_that_the_server_ended_is_unavailable() {
    let outbox = Outbox::new(ROUTE);
    let (mut client, connection) = tokio_postgres::connect(&server(), NoTls).await.unwrap();
    let work = async {
        let mut tx = client.transaction().await.unwrap();
        tx.batch_execute("select pg_terminate_backend(pg_backend_pid())").await.unwrap_err();
        let error = outbox.stage(&mut tx, Event::new("order.placed", "{}")).await.unwrap_err();
        assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, Retry::Later), "{error}");
    };
    let ((), ended) = tokio::join!(work, connection);
    ended.unwrap_err();
}
