//! What only SQLite has to be examined for: the journal, the file, its one write lock, and plans.

use std::time::Duration;

use async_trait::async_trait;
use pillarbox_core::port::{Connections, Depth, Doctor, Finding, OpenTransaction};
use pillarbox_core::{Error, ErrorKind, Result, Timestamp};
use sqlx::Row;
use sqlx::sqlite::SqliteArguments;

use crate::error::classify;
use crate::sql::Sql;
use crate::store::SqliteStore;

const NOW: &str = "select cast((julianday('now') - 2440587.5) * 86400000000 as integer)";
const JOURNAL: &str = "pragma journal_mode";
/// Writes nothing: the condition is never true, but the right to write is checked before it.
const NOTHING: &str = "update {outbox} set attempts = attempts where seq < 0";
const CHECK: &str = "pragma quick_check(1)";

/// What runs for every batch or every minute, and the indexes that it goes by.
const SUBJECTS: [(&str, &[&str]); 4] = [
    ("claim.staged", &["outbox_ready", "outbox_due"]),
    ("stale", &["outbox_stuck", "outbox_due"]),
    ("purgeable", &["outbox_ended"]),
    ("count_blocked", &["outbox_lane"]),
];

impl SqliteStore {
    async fn text(&self, sql: &'static str) -> Result<String> {
        let row = sqlx::query(sql).fetch_one(self.pool()).await.map_err(classify)?;
        row.try_get(0).map_err(classify)
    }

    async fn journal(&self) -> Result<Finding> {
        let mode = self.text(JOURNAL).await?;
        Ok(match mode.as_str() {
            "wal" | "memory" => Finding::ok("journal", format!("the journal mode is {mode}")),
            _ => Finding::warning(
                "journal",
                format!("the journal mode is {mode}, so readers and the writer wait for each other"),
                "Run `pragma journal_mode = wal` once on this file.",
            ),
        })
    }

    /// Takes the write lock and gives it back: that shows the right to write, and who holds the lock for too long.
    async fn lock(&self) -> Result<Finding> {
        match self.write_nothing().await {
            Ok(()) => Ok(Finding::ok("write_lock", "this process can write to the file")),
            Err(error) if error.kind() == ErrorKind::Contention => Ok(Finding::problem(
                "write_lock",
                "another transaction holds the write lock of the file, and did not end while this check waited",
                "SQLite has one writer at a time. Find the process with `fuser` or `lsof` on the file, and let it \
                 commit sooner.",
            )),
            Err(error) if matches!(error.kind(), ErrorKind::ReadOnly | ErrorKind::Denied) => {
                Ok(Finding::problem(
                    "rights",
                    format!("this process cannot write to the file: {error}"),
                    "A relay writes to the file and its directory. Give its user both rights.",
                ))
            }
            Err(error) => Err(error),
        }
    }

    /// On a file that cannot be written, SQLite gives the lock all the same, and refuses the first statement that
    /// writes.
    async fn write_nothing(&self) -> Result<()> {
        let mut transaction = self.writer.begin().await?;
        let statement = Sql::new(NOTHING, &self.statements.tables).with(SqliteArguments::default());
        statement.execute(&mut *transaction).await.map_err(classify)?;
        transaction.rollback().await.map_err(classify)
    }

    async fn integrity(&self) -> Result<Finding> {
        let said = self.text(CHECK).await?;
        Ok(if said == "ok" {
            Finding::ok("file", "the file is not damaged")
        } else {
            Finding::problem(
                "file",
                format!("the file is damaged: {said}"),
                "Stop every process that uses the file, copy it, and run `sqlite3 FILE .recover` on the copy.",
            )
        })
    }

    /// The plans of what a relay runs for every batch.
    async fn plans(&self) -> Result<Vec<Finding>> {
        let prefix = &self.statements.tables.prefix;
        let mut findings = Vec::new();
        for (name, statement) in self.statements.named() {
            let Some((_, indexes)) = SUBJECTS.iter().find(|(hot, _)| *hot == name) else { continue };
            let explain = Sql::explaining(&statement).with(SqliteArguments::default());
            let rows = explain.fetch_all(self.pool()).await.map_err(classify)?;
            let steps = rows.iter().map(|row| row.try_get::<String, _>(3).map_err(classify));
            let steps = steps.collect::<Result<Vec<_>>>()?.join("\n");
            let missed =
                indexes.iter().map(|index| format!("{prefix}_{index}")).find(|index| !steps.contains(index));
            if let Some(index) = missed {
                findings.push(Finding::problem(
                    "plans",
                    format!("the statement {name} does not use the index {index}, so it reads rows that it does not need"),
                    "The index is missing, or its statistics mislead the planner. Run `pillarbox migrate`, then \
                     `analyze` on the file.",
                ));
            }
        }
        if findings.is_empty() {
            findings.push(Finding::ok("plans", "every statement of a relay uses its index"));
        }
        Ok(findings)
    }
}

#[async_trait]
impl Doctor for SqliteStore {
    async fn now(&self) -> Result<Timestamp> {
        let row = sqlx::query(NOW).fetch_one(self.pool()).await.map_err(classify)?;
        let micros: i64 = row.try_get(0).map_err(classify)?;
        Timestamp::from_micros(micros).ok_or_else(|| {
            Error::new(ErrorKind::Corrupt, "this machine's clock is outside the years 1970 to 9999")
        })
    }

    async fn connections(&self) -> Result<Option<Connections>> {
        Ok(None)
    }

    /// SQLite does not tell the transactions of other processes. One that holds the write lock is found by
    /// [`examine`](Self::examine).
    async fn transactions(&self, _older_than: Duration) -> Result<Vec<OpenTransaction>> {
        Ok(Vec::new())
    }

    async fn examine(&self, depth: Depth) -> Result<Vec<Finding>> {
        let mut findings = Finding::made("journal", self.journal().await.map(|finding| vec![finding]));
        findings.extend(Finding::made("write_lock", self.lock().await.map(|finding| vec![finding])));
        if depth == Depth::Full {
            findings.extend(Finding::made("file", self.integrity().await.map(|finding| vec![finding])));
            findings.extend(Finding::made("plans", self.plans().await));
        }
        Ok(findings)
    }
}
