//! diesel-async, over mysql_async.

use diesel_async::{AnsiTransactionManager, AsyncMysqlConnection, RunQueryDsl, TransactionManager};
use pillarbox_core::Result;
use pillarbox_host::{Call, Changed, Row, Waiting, driver};

use super::diesel_query::{Cells, failed, inside, query, rows, told, which};
use crate::statement::Value;

driver!(waiting AsyncMysqlConnection, Value);

impl Waiting<Value> for AsyncMysqlConnection {
    async fn change(&mut self, call: Call<Value>) -> Result<Changed> {
        check(self)?;
        let changed = query(call).execute(self).await.map_err(failed)?;
        Ok(Changed::rows(changed as u64).told(told(which().load::<Cells>(self).await)?))
    }

    async fn ask(&mut self, call: Call<Value>) -> Result<Vec<Row>> {
        check(self)?;
        rows(query(call).load::<Cells>(self).await)
    }
}

fn check(connection: &mut AsyncMysqlConnection) -> Result<()> {
    inside(AnsiTransactionManager::transaction_manager_status_mut(connection).transaction_depth())
}
