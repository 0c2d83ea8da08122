//! What only MySQL and MariaDB have to be examined for: rights, read-only servers, purge lag, and plans.

use std::time::Duration;

use async_trait::async_trait;
use pillarbox_core::limits::TRANSACTIONS_TOLD_MAX;
use pillarbox_core::port::{Connections, Depth, Doctor, Finding, OpenTransaction};
use pillarbox_core::{Error, ErrorKind, Result, Timestamp};
use sqlx::Row;
use sqlx::mysql::MySqlRow;

use crate::bind::Bind;
use crate::error::{Phase, classify};
use crate::options::Traffic;
use crate::sql::Sql;
use crate::store::MySqlStore;

const NOW: &str = "select cast(unix_timestamp(sysdate(6)) * 1000000 as signed)";
const CONNECTIONS: &str = "select cast(@@max_connections as signed), \
    (select cast(count(*) as signed) from information_schema.processlist)";
const CONNECTIONS_USED: &str = "show status like 'Threads_connected'";
/// The text of a statement is never asked for.
const TRANSACTIONS: &str = "select cast(timestampdiff(second, t.trx_started, now()) as signed), \
    concat('connection ', t.trx_mysql_thread_id, ' of user ', coalesce(p.user, 'unknown'), ' in database ', \
        coalesce(p.db, 'unknown'), ' (', lower(t.trx_state), ', ', lower(coalesce(p.command, 'unknown')), ')') \
    from information_schema.innodb_trx as t \
    left join information_schema.processlist as p on p.id = t.trx_mysql_thread_id \
    where t.trx_mysql_thread_id <> connection_id() and timestampdiff(second, t.trx_started, now()) >= ?1 \
    order by t.trx_started limit ?2";
const READ_ONLY: &str =
    "select cast(@@global.read_only as signed), cast(@@global.innodb_read_only as signed)";
/// Reads and writes nothing: the condition is never true, but the rights are checked before it.
const RIGHTS: [(&str, &str); 3] = [
    ("SELECT and UPDATE on {outbox}", "update {outbox} set attempts = attempts where seq < 0"),
    ("DELETE on {outbox}", "delete from {outbox} where seq < 0"),
    (
        "INSERT on {audit}",
        "insert into {audit} (kind, actor, detail) select 'dead', '', '' from {outbox} where seq < 0",
    ),
];

impl MySqlStore {
    async fn asked(&self, text: &str, bind: Bind) -> Result<Vec<MySqlRow>> {
        self.rows(Traffic::Operator, &Sql::new(text, &self.statements.tables).with(bind)?).await
    }

    async fn writable(&self) -> Result<Finding> {
        let rows = self.asked(READ_ONLY, Bind::new()).await?;
        let on =
            rows.first().map_or(Ok(false), |row| Ok::<_, Error>(get(row, 0)? != 0 || get(row, 1)? != 0))?;
        Ok(if on {
            Finding::problem(
                "server",
                "the server is read-only: it is a replica, or an operator has set it so",
                "Use the URL of the primary.",
            )
        } else {
            Finding::ok("server", "the server takes writes")
        })
    }

    async fn rights(&self) -> Result<Finding> {
        let tables = &self.statements.tables;
        let mut lacking = Vec::new();
        for (right, statement) in RIGHTS {
            match self.execute(&Sql::new(statement, tables).with(Bind::new())?).await {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Denied => lacking.push(tables.fill(right)),
                Err(error) => return Err(error),
            }
        }
        Ok(if lacking.is_empty() {
            Finding::ok("rights", "this user may do everything that a relay does")
        } else {
            Finding::problem(
                "rights",
                format!("this user lacks {}", lacking.join(", ")),
                "A relay of this user cannot work. Grant these rights; the guide of MySQL has the statements.",
            )
        })
    }
}

#[async_trait]
impl Doctor for MySqlStore {
    async fn now(&self) -> Result<Timestamp> {
        let rows = self.asked(NOW, Bind::new()).await?;
        let now = rows.first().map(|row| get(row, 0)).transpose()?.and_then(Timestamp::from_micros);
        now.ok_or_else(|| {
            Error::new(ErrorKind::Corrupt, "the database's clock is outside the years 1970 to 9999")
        })
    }

    async fn connections(&self) -> Result<Option<Connections>> {
        let rows = self.asked(CONNECTIONS, Bind::new()).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        // Without the right PROCESS a user sees only its own processes in the list, so the counter is asked first.
        let counter = self.asked(CONNECTIONS_USED, Bind::new()).await.ok();
        let counted =
            counter.and_then(|rows| rows.first()?.try_get::<String, _>(1).ok()?.parse::<i64>().ok());
        let used = match counted {
            Some(used) => used,
            None => get(row, 1)?,
        };
        let number = |number: i64| u64::try_from(number).unwrap_or(0);
        let lines = [Traffic::Operator, Traffic::Reading, Traffic::Relay, Traffic::Reserved, Traffic::Sagas];
        let ours = lines.into_iter().map(|line| u64::from(self.line(line).options().get_max_connections()));
        Ok(Some(Connections { max: number(get(row, 0)?), used: number(used), ours_max: ours.sum() }))
    }

    async fn transactions(&self, older_than: Duration) -> Result<Vec<OpenTransaction>> {
        let seconds = i64::try_from(older_than.as_secs()).unwrap_or(i64::MAX);
        let bind = Bind::new().number(seconds).number(TRANSACTIONS_TOLD_MAX.into());
        let read = |row: &MySqlRow| {
            let age = Duration::from_secs(u64::try_from(get(row, 0)?).unwrap_or(0));
            let holder = row.try_get_unchecked(1).map_err(|error| classify(error, Phase::Before))?;
            Ok(OpenTransaction { age, holder })
        };
        self.asked(TRANSACTIONS, bind).await?.iter().map(read).collect()
    }

    async fn examine(&self, _depth: Depth) -> Result<Vec<Finding>> {
        let mut findings = Finding::made("server", self.writable().await.map(|finding| vec![finding]));
        findings.extend(Finding::made("rights", self.rights().await.map(|finding| vec![finding])));
        Ok(findings)
    }
}

fn get(row: &MySqlRow, column: usize) -> Result<i64> {
    row.try_get_unchecked(column).map_err(|error| classify(error, Phase::Before))
}
