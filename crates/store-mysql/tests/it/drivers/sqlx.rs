//! sqlx, the driver of the store itself.

use async_trait::async_trait;
use pillarbox_conformance::act;
use pillarbox_conformance::driver::{Act, End, Said};
use sqlx::{Connection, MySql, MySqlConnection, Transaction};

use super::{COUNT, Driver, PATIENCE, Place};

struct Sqlx;

pillarbox_conformance::driver_conformance!(super::On<Sqlx>);

#[async_trait(?Send)]
impl Driver for Sqlx {
    const NAME: &'static str = "sqlx on mysql";

    async fn run(place: &Place, acts: Vec<Act<'_>>, end: End) -> Vec<Said> {
        let mut connection = MySqlConnection::connect(&place.url).await.unwrap();
        sqlx::query(PATIENCE).execute(&mut connection).await.unwrap();
        inside(place, connection.begin().await.unwrap(), acts, end).await
    }
}

async fn inside(place: &Place, mut tx: Transaction<'_, MySql>, acts: Vec<Act<'_>>, end: End) -> Vec<Said> {
    let mut said = Vec::new();
    for act in acts {
        said.push(match act {
            Act::Count => {
                let count = sqlx::query_scalar::<_, String>(COUNT);
                Said::Counted(count.fetch_one(&mut *tx).await.unwrap().parse().unwrap())
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
