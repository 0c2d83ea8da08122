//! sqlx, the driver of the store itself.

use async_trait::async_trait;
use pillarbox_conformance::act;
use pillarbox_conformance::driver::{Act, End, Said};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Postgres, Transaction};

use super::{Driver, PATIENCE, Place};

struct Sqlx;

pillarbox_conformance::driver_conformance!(super::Direct<Sqlx>);

#[async_trait(?Send)]
impl Driver for Sqlx {
    const NAME: &'static str = "sqlx on postgres";

    async fn run(place: &Place, acts: Vec<Act<'_>>, end: End) -> Vec<Said> {
        let mut connection = PgConnection::connect(&place.url).await.unwrap();
        let mut tx = connection.begin().await.unwrap();
        sqlx::query(PATIENCE).execute(&mut *tx).await.unwrap();
        inside(place, tx, acts, end).await
    }
}

async fn inside(place: &Place, mut tx: Transaction<'_, Postgres>, acts: Vec<Act<'_>>, end: End) -> Vec<Said> {
    let mut said = Vec::new();
    for act in acts {
        said.push(match act {
            Act::Count => {
                let count = sqlx::query_scalar::<_, String>(AssertSqlSafe(place.count.clone()));
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
