//! sqlx.

use pillarbox_core::Result;
use pillarbox_host::{Call, Changed, Row, Waiting, driver};
use sqlx::Row as _;
use sqlx::mysql::MySqlRow;

use super::cell;
use crate::commit::Tx;
use crate::error::{Phase, classify};
use crate::sql::Bound;
use crate::statement::Value;

driver!(waiting Tx<'_>, Value);

impl Waiting<Value> for Tx<'_> {
    async fn change(&mut self, call: Call<Value>) -> Result<Changed> {
        Bound::new(call)?.execute_in(self, Phase::Application).await
    }

    async fn ask(&mut self, call: Call<Value>) -> Result<Vec<Row>> {
        Bound::new(call)?.rows_in(self, Phase::Application).await?.iter().map(row).collect()
    }
}

fn row(row: &MySqlRow) -> Result<Row> {
    let read = |column| {
        let bytes = row.try_get_unchecked(column).map_err(|error| classify(error, Phase::Application))?;
        cell(bytes)
    };
    (0..row.len()).map(read).collect::<Result<_>>().map(Row)
}
