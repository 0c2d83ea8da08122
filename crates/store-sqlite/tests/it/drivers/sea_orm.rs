//! SeaORM.

use async_trait::async_trait;
use pillarbox_conformance::act;
use pillarbox_conformance::driver::{Act, End, Said};
use sea_orm::{
    ConnectOptions, ConnectionTrait, Database, DatabaseTransaction, DbBackend, Statement, TransactionTrait,
};

use super::{COUNT, Driver, PATIENCE, Place};

struct SeaOrm;

pillarbox_conformance::driver_conformance!(super::On<SeaOrm>);

#[async_trait(?Send)]
impl Driver for SeaOrm {
    const NAME: &'static str = "sea-orm on sqlite";

    async fn run(place: &Place, acts: Vec<Act<'_>>, end: End) -> Vec<Said> {
        let mut options = ConnectOptions::new(format!("sqlite://{}", place.file.display()));
        options.map_sqlx_sqlite_opts(|options| options.busy_timeout(PATIENCE));
        let database = Database::connect(options).await.unwrap();
        let said = inside(place, database.begin().await.unwrap(), acts, end).await;
        database.close().await.unwrap();
        said
    }
}

async fn inside(place: &Place, mut tx: DatabaseTransaction, acts: Vec<Act<'_>>, end: End) -> Vec<Said> {
    let mut said = Vec::new();
    for act in acts {
        said.push(match act {
            Act::Count => {
                let row = tx.query_one_raw(Statement::from_string(DbBackend::Sqlite, COUNT)).await;
                let count: String = row.unwrap().unwrap().try_get_by_index(0).unwrap();
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
