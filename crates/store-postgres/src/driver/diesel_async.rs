//! diesel-async, over tokio-postgres.

use diesel_async::{AnsiTransactionManager, AsyncPgConnection, RunQueryDsl, TransactionManager};
use pillarbox_core::Result;
use pillarbox_host::{Call, Changed, Row, Waiting, driver};

use super::diesel_query::{Cells, failed, inside, query};
use crate::statement::Value;

driver!(waiting AsyncPgConnection, Value);

impl Waiting<Value> for AsyncPgConnection {
    async fn change(&mut self, call: Call<Value>) -> Result<Changed> {
        check(self)?;
        Ok(Changed::rows(query(call).execute(self).await.map_err(failed)? as u64))
    }

    async fn ask(&mut self, call: Call<Value>) -> Result<Vec<Row>> {
        check(self)?;
        let rows = query(call).load::<Cells>(self).await.map_err(failed)?;
        Ok(rows.into_iter().map(|cells| cells.0).collect())
    }
}

fn check(connection: &mut AsyncPgConnection) -> Result<()> {
    inside(AnsiTransactionManager::transaction_manager_status_mut(connection).transaction_depth())
}
