//! sqlx.

use pillarbox_core::Result;
use pillarbox_host::{Call, Changed, Row, Waiting, driver};
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Row as _, Sqlite};

use crate::bind::Bind;
use crate::commit::Tx;
use crate::error::classify;
use crate::sql::Sql;
use crate::statement::Value;

driver!(waiting Tx<'_>, Value);

impl Waiting<Value> for Tx<'_> {
    async fn change(&mut self, call: Call<Value>) -> Result<Changed> {
        Ok(Changed::rows(query(call)?.execute(&mut **self).await.map_err(classify)?.rows_affected()))
    }

    async fn ask(&mut self, call: Call<Value>) -> Result<Vec<Row>> {
        query(call)?.fetch_all(&mut **self).await.map_err(classify)?.iter().map(row).collect()
    }
}

fn query(call: Call<Value>) -> Result<Query<'static, Sqlite, SqliteArguments>> {
    let bind = call.values.into_iter().fold(Bind::new(), |bind, value| match value {
        Value::Null => bind.value(None::<i64>),
        Value::Text(text) => bind.value(text),
        Value::Integer(number) => bind.value(number),
        Value::Bytes(bytes) => bind.value(bytes),
    });
    Ok(Sql::again(call.sql).with(bind.done()?))
}

fn row(row: &SqliteRow) -> Result<Row> {
    let cells: sqlx::Result<Vec<String>> = (0..row.len()).map(|column| row.try_get(column)).collect();
    cells.map(Row).map_err(classify)
}
