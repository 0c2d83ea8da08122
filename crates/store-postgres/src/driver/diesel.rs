//! diesel, through libpq.

use diesel::connection::{AnsiTransactionManager, TransactionManager};
use diesel::{PgConnection, RunQueryDsl};
use pillarbox_core::Result;
use pillarbox_host::{Blocking, Call, Changed, Row, driver};

use super::diesel_query::{Cells, failed, inside, query};
use crate::statement::Value;

driver!(blocking PgConnection, Value);

impl Blocking<Value> for PgConnection {
    fn change(&mut self, call: Call<Value>) -> Result<Changed> {
        check(self)?;
        Ok(Changed::rows(query(call).execute(self).map_err(failed)? as u64))
    }

    fn ask(&mut self, call: Call<Value>) -> Result<Vec<Row>> {
        check(self)?;
        let rows = query(call).load::<Cells>(self).map_err(failed)?;
        Ok(rows.into_iter().map(|cells| cells.0).collect())
    }
}

fn check(connection: &mut PgConnection) -> Result<()> {
    inside(AnsiTransactionManager::transaction_manager_status_mut(connection).transaction_depth())
}
