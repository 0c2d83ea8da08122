//! diesel, through the client library of MariaDB or MySQL.

use diesel::connection::{AnsiTransactionManager, TransactionManager};
use diesel::{MysqlConnection, RunQueryDsl};
use pillarbox_core::Result;
use pillarbox_host::{Blocking, Call, Changed, Row, driver};

use super::diesel_query::{Cells, failed, inside, query, rows, told, which};
use crate::statement::Value;

driver!(blocking MysqlConnection, Value);

impl Blocking<Value> for MysqlConnection {
    fn change(&mut self, call: Call<Value>) -> Result<Changed> {
        check(self)?;
        let changed = query(call).execute(self).map_err(failed)?;
        Ok(Changed::rows(changed as u64).told(told(which().load::<Cells>(self))?))
    }

    fn ask(&mut self, call: Call<Value>) -> Result<Vec<Row>> {
        check(self)?;
        rows(query(call).load::<Cells>(self))
    }
}

fn check(connection: &mut MysqlConnection) -> Result<()> {
    inside(AnsiTransactionManager::transaction_manager_status_mut(connection).transaction_depth())
}
