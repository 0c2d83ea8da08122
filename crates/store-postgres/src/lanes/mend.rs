//! The tables of sessions are unlogged: a server that was promoted, restored or copied may have them without contents, or
//! with contents that cannot be read. Empty is always right, so a relay that finds them damaged empties them.

use pillarbox_core::{Error, ErrorKind, Result};

use crate::bind::Bind;
use crate::call::Traffic;
use crate::error::Phase;
use crate::sql::Sql;
use crate::store::PostgresStore;

/// Codes of the server for files that are not there and for pages that are not what they should be; the last one is of
/// everything that the server did not expect, such as a sequence without its magic number.
const DAMAGE: [&str; 4] = ["XX001", "XX002", "58P01", "XX000"];

/// Whether a table or an index may be damaged.
pub(crate) fn is_damage(error: &Error) -> bool {
    error.code().is_some_and(|code| DAMAGE.contains(&code))
}

impl PostgresStore {
    /// What is wrong with the tables of sessions, if anything is. A standby has none, and a role without the
    /// right to look at them does not read by lanes either.
    pub(crate) async fn session_damage(&self) -> Result<Option<Error>> {
        let mut unit = self.unit(Traffic::Operator).await?;
        unit.script(&Sql::by_index()).await?;
        match unit.rows(&self.sql().lanes_probe, Bind::new().done()?).await {
            Ok(_) => unit.commit(Phase::Before).await.map(|()| None),
            Err(error) if is_damage(&error) => Ok(Some(error)),
            Err(error) if matches!(error.kind(), ErrorKind::ReadOnly | ErrorKind::Denied) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Empties the tables of sessions if they are damaged; what else is damaged is not touched.
    pub(crate) async fn mend_sessions(&self, found: &Error) -> Result<()> {
        tracing::warn!(
            error = %found,
            "the tables of lane sessions cannot be used, as can happen after a failover. They are emptied, \
             and every relay joins again"
        );
        let mut unit = self.unit(Traffic::Operator).await?;
        unit.script(&self.sql().lanes_mend)
            .await
            .map_err(|error| error.context("emptying the damaged tables of lane sessions"))?;
        unit.commit(Phase::Committing).await
    }
}
