//! sqlx.

use pillarbox_core::Result;
use pillarbox_host::{Call, Changed, Row, Waiting, driver};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Postgres, Row as _};

use crate::bind::Bind;
use crate::commit::Tx;
use crate::error::{Phase, classify};
use crate::sql::Sql;
use crate::statement::Value;

driver!(waiting Tx<'_>, Value);

impl Waiting<Value> for Tx<'_> {
    async fn change(&mut self, call: Call<Value>) -> Result<Changed> {
        Ok(Changed::rows(query(call)?.execute(&mut **self).await.map_err(failed)?.rows_affected()))
    }

    async fn ask(&mut self, call: Call<Value>) -> Result<Vec<Row>> {
        query(call)?.fetch_all(&mut **self).await.map_err(failed)?.iter().map(row).collect()
    }
}

fn query(call: Call<Value>) -> Result<Query<'static, Postgres, PgArguments>> {
    let bind = call.values.into_iter().fold(Bind::new(), |bind, value| match value {
        Value::Text(text) => bind.value(text),
        Value::Integer(number) => bind.value(number),
        Value::Bytes(bytes) => bind.value(bytes),
        Value::Texts(texts) => bind.value(texts),
        Value::Integers(numbers) => bind.value(numbers),
        Value::Blobs(blobs) => bind.value(blobs),
    });
    Ok(Sql::again(call.sql).with(bind.done()?).persistent(call.keep))
}

fn row(row: &PgRow) -> Result<Row> {
    let cells: sqlx::Result<Vec<String>> = (0..row.len()).map(|column| row.try_get(column)).collect();
    cells.map(Row).map_err(failed)
}

fn failed(error: sqlx::Error) -> pillarbox_core::Error {
    classify(error, Phase::Application)
}
