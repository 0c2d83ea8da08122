//! sqlx, the driver of the store itself.

use async_trait::async_trait;
use pillarbox_conformance::act;
use pillarbox_conformance::driver::{Act, End, Said};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, Sqlite, Transaction};

use super::{COUNT, Driver, PATIENCE, Place};

struct Sqlx;

pillarbox_conformance::driver_conformance!(super::On<Sqlx>);

#[async_trait(?Send)]
impl Driver for Sqlx {
    const NAME: &'static str = "sqlx on sqlite";

    async fn run(place: &Place, acts: Vec<Act<'_>>, end: End) -> Vec<Said> {
        let options = SqliteConnectOptions::new().filename(&place.file).busy_timeout(PATIENCE);
        let mut connection = options.connect().await.unwrap();
        inside(place, connection.begin().await.unwrap(), acts, end).await
    }
}

async fn inside(place: &Place, mut tx: Transaction<'_, Sqlite>, acts: Vec<Act<'_>>, end: End) -> Vec<Said> {
    let mut said = Vec::new();
    for act in acts {
        said.push(match act {
            Act::Count => {
                let count: String = sqlx::query_scalar(COUNT).fetch_one(&mut *tx).await.unwrap();
                Said::Counted(count.parse().unwrap())
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
