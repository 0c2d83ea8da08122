//! Raw loops: what somebody would write by hand, on a plain table, in plain SQL.

use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;

use super::BenchArgs;
use super::bed::Bed;
use super::stats::rate;
use crate::database::Staging;
use crate::fault::Fault;

/// How a raw loop takes rows and lets go of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Design {
    /// Claim `UPDATE … RETURNING`, settle `UPDATE`: what most hand-written outboxes do.
    Classic,
    /// One reader above its own cursor, settle `UPDATE`: what a lane comes to when entries are kept.
    LaneKept,
    /// The same, settle `DELETE`.
    LaneDeleted,
}

/// Fills the plain table, drains it, and says how fast. `passed` hears how many were settled, after each batch.
pub(crate) async fn drain(
    bed: &Bed,
    args: &BenchArgs,
    design: Design,
    mut passed: impl FnMut(u64),
) -> Result<f64, Fault> {
    let started = std::time::Instant::now();
    let (mut drained, mut cursor) = (0_u64, 0);
    loop {
        let ids = take(bed, args.batch, design, cursor).await.map_err(failed)?;
        let Some(last) = ids.iter().max() else { break };
        cursor = *last;
        settle(bed, design, &ids).await.map_err(failed)?;
        drained += u64::try_from(ids.len()).unwrap_or(0);
        passed(drained);
    }
    Ok(rate(drained, started))
}

/// Empties the plain table and fills it again.
pub(crate) async fn fill(bed: &Bed, args: &BenchArgs) -> Result<(), Fault> {
    bed.main.staging.execute(bed.sql.clear_classic).await?;
    bed.load(bed.sql.load_classic, args.events).await
}

async fn take(bed: &Bed, batch: u32, design: Design, cursor: i64) -> sqlx::Result<Vec<i64>> {
    let limit = i64::from(batch);
    let claims = design == Design::Classic;
    match &bed.main.staging {
        Staging::Sqlite(store, _) => {
            let query = if claims {
                sqlx::query(bed.sql.claim_classic).bind(limit)
            } else {
                sqlx::query(bed.sql.read_classic).bind(cursor).bind(limit)
            };
            query.fetch_all(store.pool()).await?.iter().map(of_sqlite).collect()
        }
        Staging::Postgres(store, _) => {
            let query = if claims {
                sqlx::query(bed.sql.claim_classic).bind(limit)
            } else {
                sqlx::query(bed.sql.read_classic).bind(cursor).bind(limit)
            };
            query.fetch_all(store.pool()).await?.iter().map(of_postgres).collect()
        }
    }
}

// Type and payload are read as a relay would have to, to publish them.
fn of_sqlite(row: &SqliteRow) -> sqlx::Result<i64> {
    std::hint::black_box((row.try_get::<String, _>(1)?, row.try_get::<Vec<u8>, _>(2)?));
    row.try_get(0)
}

fn of_postgres(row: &PgRow) -> sqlx::Result<i64> {
    std::hint::black_box((row.try_get::<String, _>(1)?, row.try_get::<Vec<u8>, _>(2)?));
    row.try_get(0)
}

async fn settle(bed: &Bed, design: Design, ids: &[i64]) -> sqlx::Result<()> {
    let sql = match design {
        Design::Classic | Design::LaneKept => bed.sql.settle_classic,
        Design::LaneDeleted => bed.sql.delete_classic,
    };
    match &bed.main.staging {
        Staging::Sqlite(store, _) => {
            let json = serde_json::to_string(ids).map_err(|error| sqlx::Error::Encode(Box::new(error)))?;
            sqlx::query(sql).bind(json).execute(store.pool()).await.map(|_| ())
        }
        Staging::Postgres(store, _) => sqlx::query(sql).bind(ids).execute(store.pool()).await.map(|_| ()),
    }
}

fn failed(error: sqlx::Error) -> Fault {
    Fault::failed(format!("a raw loop failed: {error}"))
}
