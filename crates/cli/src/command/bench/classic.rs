//! The raw classic loop: what most hand-written outboxes do.

use sqlx::Row;

use super::BenchArgs;
use super::bed::Bed;
use super::stats::rate;
use crate::database::Staging;
use crate::fault::Fault;

/// Fills the classic table, drains it, and says how fast.
pub(crate) async fn drain(bed: &Bed, args: &BenchArgs) -> Result<f64, Fault> {
    bed.main.staging.execute(bed.sql.clear_classic).await?;
    bed.load(bed.sql.load_classic, args.events).await?;
    let started = std::time::Instant::now();
    let mut drained = 0_u64;
    loop {
        let ids = claim(bed, args.batch).await.map_err(failed)?;
        if ids.is_empty() {
            break;
        }
        drained += u64::try_from(ids.len()).unwrap_or(0);
        settle(bed, &ids).await.map_err(failed)?;
    }
    Ok(rate(drained, started))
}

// Type and payload are read as a relay would have to, to publish them.
async fn claim(bed: &Bed, batch: u32) -> sqlx::Result<Vec<i64>> {
    let limit = i64::from(batch);
    let mut ids = Vec::new();
    match &bed.main.staging {
        Staging::Sqlite(store, _) => {
            for row in sqlx::query(bed.sql.claim_classic).bind(limit).fetch_all(store.pool()).await? {
                std::hint::black_box((row.try_get::<String, _>(1)?, row.try_get::<Vec<u8>, _>(2)?));
                ids.push(row.try_get(0)?);
            }
        }
        Staging::Postgres(store, _) => {
            for row in sqlx::query(bed.sql.claim_classic).bind(limit).fetch_all(store.pool()).await? {
                std::hint::black_box((row.try_get::<String, _>(1)?, row.try_get::<Vec<u8>, _>(2)?));
                ids.push(row.try_get(0)?);
            }
        }
    }
    Ok(ids)
}

async fn settle(bed: &Bed, ids: &[i64]) -> sqlx::Result<()> {
    match &bed.main.staging {
        Staging::Sqlite(store, _) => {
            let json = serde_json::to_string(ids).map_err(|error| sqlx::Error::Encode(Box::new(error)))?;
            sqlx::query(bed.sql.settle_classic).bind(json).execute(store.pool()).await.map(|_| ())
        }
        Staging::Postgres(store, _) => {
            sqlx::query(bed.sql.settle_classic).bind(ids).execute(store.pool()).await.map(|_| ())
        }
    }
}

fn failed(error: sqlx::Error) -> Fault {
    Fault::failed(format!("the classic loop failed: {error}"))
}
