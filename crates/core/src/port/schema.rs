//! The tables: whether they are as this version needs them, and how to upgrade them.

use async_trait::async_trait;

use crate::error::{Error, ErrorKind, Result};

/// The schema of a store.
#[async_trait]
pub trait Schema: Send + Sync {
    /// Inspects the tables and changes nothing.
    async fn inspect(&self) -> Result<SchemaState>;

    /// Creates or upgrades the tables. Concurrent calls are safe: one call does the work, and the others find it
    /// done.
    async fn migrate(&self) -> Result<Migrated>;

    /// The SQL that [`migrate`](Self::migrate) would run now, for people who run migrations themselves.
    async fn plan(&self) -> Result<String>;
}

/// The state of the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaState {
    /// The tables are as this version needs them. The warnings name defects that only slow it down or limit it,
    /// such as a missing index.
    Ready {
        /// The defects.
        warnings: Vec<String>,
    },
    /// There are no tables.
    Missing,
    /// The tables are from an earlier version. `pillarbox migrate` upgrades them.
    Older {
        /// The version that was found.
        found: u32,
        /// The version that is needed.
        wanted: u32,
    },
    /// The tables are from a later version. This program must be upgraded.
    Newer {
        /// The version that was found.
        found: u32,
        /// The version that is needed.
        wanted: u32,
    },
    /// The tables are not as any version created them.
    Damaged {
        /// What is missing or different, one a line.
        differences: Vec<String>,
    },
}

impl SchemaState {
    /// `Ok` if this version can work with the tables.
    ///
    /// # Errors
    /// [`Schema`](ErrorKind::Schema) with the difference and the command that mends it.
    pub fn check(&self) -> Result<()> {
        let message = match self {
            Self::Ready { .. } => return Ok(()),
            Self::Missing => "the Pillarbox tables are missing; `pillarbox migrate` creates them".to_owned(),
            Self::Older { found, wanted } => format!(
                "the Pillarbox tables have version {found}, but this program needs {wanted}; `pillarbox \
                 migrate` upgrades them"
            ),
            Self::Newer { found, wanted } => format!(
                "the Pillarbox tables have version {found}, but this program only knows {wanted}; upgrade \
                 this program"
            ),
            Self::Damaged { differences } => format!(
                "the Pillarbox tables are damaged: {}. Restore them; `pillarbox migrate --plan` prints the \
                 expected tables",
                differences.join("; ")
            ),
        };
        Err(Error::new(ErrorKind::Schema, message))
    }
}

/// What a migration did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// The version before. 0: there were no tables.
    pub from: u32,
    /// The version now.
    pub to: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_that_do_not_fit_are_refused_with_what_mends_them() {
        for (state, says) in [
            (SchemaState::Missing, "`pillarbox migrate` creates them"),
            (
                SchemaState::Older { found: 1, wanted: 2 },
                "version 1, but this program needs 2; `pillarbox migrate`",
            ),
            (
                SchemaState::Newer { found: 3, wanted: 2 },
                "version 3, but this program only knows 2; upgrade this program",
            ),
            (
                SchemaState::Damaged { differences: vec!["no column fence".into()] },
                "damaged: no column fence",
            ),
        ] {
            let error = state.check().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Schema);
            assert!(error.to_string().contains(says), "{error}");
        }
        SchemaState::Ready { warnings: vec!["an index is missing".into()] }.check().unwrap();
    }
}
