//! What only PostgreSQL has to be examined for: the pooler, rights, indexes, plans, vacuum and what holds it back.

use std::time::Duration;

use async_trait::async_trait;
use pillarbox_core::limits::TRANSACTIONS_TOLD_MAX;
use pillarbox_core::port::{Connections, Depth, Doctor, Finding, OpenTransaction};
use pillarbox_core::{Error, ErrorKind, Result, Timestamp, format_duration};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::bind::Bind;
use crate::call::{Again, Traffic};
use crate::claim::micros;
use crate::error::{Phase, classify};
use crate::options::Mode;
use crate::sql::Sql;
use crate::store::PostgresStore;

const NOW: &str = "select (extract(epoch from clock_timestamp()) * 1000000)::bigint";
const CONNECTIONS: &str = "select current_setting('max_connections')::bigint \
        - current_setting('superuser_reserved_connections')::bigint, \
    (select count(*) from pg_catalog.pg_stat_activity where backend_type = 'client backend')";
/// Whatever keeps old rows: transactions and snapshots, prepared transactions, replication slots. The text of a
/// statement is never asked for.
const TRANSACTIONS: &str = "select age, holder from ( \
        select (extract(epoch from clock_timestamp() - a.xact_start) * 1000000)::bigint as age, \
            format('process %s of role %s in database %s (%s, %s)', a.pid, coalesce(a.usename, '?'), \
                coalesce(a.datname, '?'), coalesce(nullif(a.application_name, ''), 'no name'), \
                coalesce(a.state, 'state hidden')) as holder \
        from pg_catalog.pg_stat_activity as a \
        where a.xact_start is not null and a.pid <> pg_backend_pid() and a.backend_type = 'client backend' \
        union all \
        select (extract(epoch from clock_timestamp() - p.prepared) * 1000000)::bigint, \
            format('the prepared transaction %L of role %s', p.gid, p.owner) \
        from pg_catalog.pg_prepared_xacts as p \
    ) as held where age >= $1 order by age desc limit $2";
const SLOTS: &str = "select slot_name::text from pg_catalog.pg_replication_slots \
    where not active and (xmin is not null or catalog_xmin is not null) order by 1";
const SERVER: &str = "select pg_catalog.pg_is_in_recovery(), \
    current_setting('default_transaction_read_only')::boolean";
const RIGHTS: &str = "select current_user::text, c.relname::text, w.what from pg_catalog.pg_class as c \
    join pg_catalog.pg_namespace as n on n.oid = c.relnamespace \
    join unnest($2::text[], $3::text[]) as w (relname, what) on w.relname = c.relname \
    where n.nspname = $1 and c.relkind in ('r', 'p') \
        and not pg_catalog.has_table_privilege(c.oid, w.what) order by 2, 3";
const INVALID: &str = "select i.relname::text from pg_catalog.pg_class as c \
    join pg_catalog.pg_namespace as n on n.oid = c.relnamespace \
    join pg_catalog.pg_index as x on x.indrelid = c.oid and not x.indisvalid \
    join pg_catalog.pg_class as i on i.oid = x.indexrelid \
    where n.nspname = $1 and c.relname = $2 order by 1";
const VACUUM: &str = "select current_setting('autovacuum')::boolean \
        and not coalesce('autovacuum_enabled=false' = any (c.reloptions) \
            or 'autovacuum_enabled=off' = any (c.reloptions), false), \
    coalesce(s.n_live_tup, 0)::bigint, coalesce(s.n_dead_tup, 0)::bigint \
    from pg_catalog.pg_class as c \
    join pg_catalog.pg_namespace as n on n.oid = c.relnamespace \
    left join pg_catalog.pg_stat_all_tables as s on s.relid = c.oid \
    where n.nspname = $1 and c.relname = $2";
/// What relays and operators need, as `roles.sql` grants it. The other tables are for applications. The audit trail is
/// append-only, and no route is ever forgotten.
const NEEDED: [(&str, &[&str]); 6] = [
    ("outbox", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("audit", &["SELECT", "INSERT"]),
    ("lane", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("lane_session", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("relay", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("route_state", &["SELECT", "INSERT", "UPDATE"]),
];
/// Fewer dead rows are no concern, however few live ones there are.
const DEAD_MIN: i64 = 50_000;

impl PostgresStore {
    async fn asked(&self, text: &'static str, bind: Bind) -> Result<Vec<PgRow>> {
        let sql = Sql::new(text, self.tables());
        self.run(Traffic::Operator, Again::Always, &sql, bind.done()?).await
    }

    fn table(&self, name: &str) -> String {
        format!("{}_{name}", self.tables().prefix)
    }

    fn pooler(&self) -> Finding {
        match self.mode() {
            Mode::Direct => {
                Finding::ok("pooler", "no transaction pooler is between this process and the server")
            }
            Mode::Pooled => Finding::ok(
                "pooler",
                "a transaction pooler is in front of the server, so every call is a transaction of its own with \
                 its settings. That works, and costs a round trip more",
            ),
        }
    }

    async fn writable(&self) -> Result<Finding> {
        let rows = self.asked(SERVER, Bind::new()).await?;
        let (standby, read_only) = match rows.first() {
            Some(row) => (get(row, 0)?, get(row, 1)?),
            None => (false, false),
        };
        Ok(if standby {
            Finding::problem(
                "server",
                "the server is a standby, which takes no writes",
                "Use the URL of the primary.",
            )
        } else if read_only {
            Finding::problem(
                "server",
                "transactions are read-only by default (default_transaction_read_only), for this role, this \
                 database or the whole server",
                "Use the URL of the primary, or reset that setting.",
            )
        } else {
            Finding::ok("server", "the server takes writes")
        })
    }

    async fn rights(&self) -> Result<Finding> {
        let needed =
            NEEDED.iter().flat_map(|(name, rights)| rights.iter().map(|right| (self.table(name), *right)));
        let (names, rights): (Vec<String>, Vec<&str>) = needed.unzip();
        let rights: Vec<String> = rights.into_iter().map(str::to_owned).collect();
        let bind = Bind::new().text(&self.tables().schema).value(names).value(rights);
        let rows = self.asked(RIGHTS, bind).await?;
        let Some(first) = rows.first() else {
            return Ok(Finding::ok("rights", "this role may do everything that a relay does"));
        };
        let role: String = get(first, 0)?;
        let lacking =
            rows.iter().map(|row| Ok(format!("{} on {}", get::<String>(row, 2)?, get::<String>(row, 1)?)));
        let lacking = lacking.collect::<Result<Vec<_>>>()?.join(", ");
        Ok(Finding::problem(
            "rights",
            format!("the role {role} lacks {lacking}"),
            "A relay of this role cannot work. Grant these rights; the guide of PostgreSQL has the statements.",
        ))
    }

    async fn indexes(&self) -> Result<Vec<Finding>> {
        let bind = Bind::new().text(&self.tables().schema).text(&self.table("outbox"));
        let rows = self.asked(INVALID, bind).await?;
        if rows.is_empty() {
            return Ok(vec![Finding::ok("indexes", "every index of the outbox is valid")]);
        }
        let finding = |row: &PgRow| {
            let index: String = get(row, 0)?;
            Ok(Finding::problem(
                "indexes",
                format!(
                    "the index {index} is invalid: its creation was interrupted, and no statement uses it"
                ),
                format!("Run `reindex index concurrently {}.{index}`.", self.tables().schema),
            ))
        };
        rows.iter().map(finding).collect()
    }

    async fn vacuum(&self) -> Result<Finding> {
        let table = self.table("outbox");
        let rows = self.asked(VACUUM, Bind::new().text(&self.tables().schema).text(&table)).await?;
        let Some(row) = rows.first() else {
            return Ok(Finding::problem(
                "vacuum",
                format!("{table} is not there"),
                "Run `pillarbox migrate`.",
            ));
        };
        let (on, live, dead): (bool, i64, i64) = (get(row, 0)?, get(row, 1)?, get(row, 2)?);
        let rows = format!("{table} has about {live} live and {dead} dead rows");
        Ok(if !on {
            Finding::problem(
                "vacuum",
                format!("autovacuum is off; {rows}"),
                format!(
                    "Every delivery leaves a dead row. Run `alter table {table} reset (autovacuum_enabled)`, or \
                         turn autovacuum on in the server."
                ),
            )
        } else if dead > DEAD_MIN && dead > live {
            Finding::warning(
                "vacuum",
                format!("autovacuum does not keep up: {rows}"),
                "Look for a transaction that is open for long. If there is none, set autovacuum_vacuum_cost_limit \
                 higher, or autovacuum_vacuum_scale_factor of this table lower.",
            )
        } else {
            Finding::ok("vacuum", rows)
        })
    }

    async fn slots(&self) -> Result<Option<Finding>> {
        let rows = self.asked(SLOTS, Bind::new()).await?;
        let names = rows.iter().map(|row| get::<String>(row, 0)).collect::<Result<Vec<_>>>()?;
        Ok((!names.is_empty()).then(|| {
            Finding::warning(
                "slots",
                format!("replication slots that nobody reads hold back vacuum: {}", names.join(", ")),
                "Let their consumer continue, or run `select pg_drop_replication_slot(…)`.",
            )
        }))
    }

    /// The generic plans of what a relay runs for every batch, with the planner's settings of a relay.
    async fn plans(&self) -> Result<Vec<Finding>> {
        let sql = self.sql();
        let subjects: [(&str, &Sql, &str, &str); 8] = [
            (
                "claim_staged",
                &sql.claim_staged,
                "text, timestamptz, bigint, bigint, bigint, text, bigint, timestamptz, bigint, bigint, boolean",
                "outbox_open",
            ),
            ("extend", &sql.extend, "bigint[], bigint[], timestamptz, bigint", "outbox_pkey"),
            ("settle_delivered", &sql.settle_delivered, "bigint[], bigint[], timestamptz", "outbox_pkey"),
            (
                "settle_mixed",
                &sql.settle_mixed,
                "bigint[], bigint[], text[], bigint[], text[], timestamptz",
                "outbox_pkey",
            ),
            (
                "reap",
                &sql.reap,
                "text, timestamptz, bigint, bigint, text, text, boolean, boolean",
                "outbox_open",
            ),
            (
                "lanes_read",
                &sql.lanes_read,
                "text, uuid, bigint[], bigint[], bigint[], boolean",
                "outbox_lane",
            ),
            ("lanes_heads", &sql.lanes_heads, "text, smallint[]", "outbox_open"),
            ("purge", &sql.purge, "timestamptz, bigint, bigint, text", "outbox_ended"),
        ];
        let mut unit = self.unit(Traffic::Relay).await?;
        let mut findings = Vec::new();
        for (name, statement, types, index) in subjects {
            unit.script(&statement.prepared(types)).await?;
            let rows = unit.rows(&Sql::explain_prepared(types), Bind::new().done()?).await;
            unit.script(&Sql::deallocate_prepared()).await?;
            let lines = rows?.iter().map(|row| get::<String>(row, 0)).collect::<Result<Vec<_>>>()?;
            let index = self.table(index);
            if !lines.iter().any(|line| line.contains(&index)) {
                findings.push(Finding::problem(
                    "plans",
                    format!(
                        "the statement {name} does not use the index {index}, so it reads rows that it does not need"
                    ),
                    "The index is missing or cannot be used. Run `pillarbox migrate`, then look at the index \
                     findings of this report.",
                ));
            }
        }
        unit.commit(Phase::Before).await?;
        if findings.is_empty() {
            findings.push(Finding::ok("plans", "every statement of a relay uses its index"));
        }
        Ok(findings)
    }
}

#[async_trait]
impl Doctor for PostgresStore {
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
        let number = |column| Ok::<_, Error>(u64::try_from(get::<i64>(row, column)?).unwrap_or(0));
        let lines = [Traffic::Operator, Traffic::Relay, Traffic::Reserved];
        let ours = lines.into_iter().map(|line| u64::from(self.line(line).options().get_max_connections()));
        Ok(Some(Connections { max: number(0)?, used: number(1)?, ours_max: ours.sum() }))
    }

    async fn transactions(&self, older_than: Duration) -> Result<Vec<OpenTransaction>> {
        let bind = Bind::new().number(micros(older_than)).number(TRANSACTIONS_TOLD_MAX.into());
        let read = |row: &PgRow| {
            let age = Duration::from_micros(u64::try_from(get::<i64>(row, 0)?).unwrap_or(0));
            Ok(OpenTransaction { age, holder: get(row, 1)? })
        };
        self.asked(TRANSACTIONS, bind).await?.iter().map(read).collect()
    }

    async fn examine(&self, depth: Depth) -> Result<Vec<Finding>> {
        let mut findings = vec![self.pooler()];
        findings.extend(Finding::made("server", self.writable().await.map(|finding| vec![finding])));
        findings.extend(Finding::made("rights", self.rights().await.map(|finding| vec![finding])));
        if depth == Depth::Full {
            findings.extend(Finding::made("indexes", self.indexes().await));
            findings.extend(Finding::made("vacuum", self.vacuum().await.map(|finding| vec![finding])));
            findings.extend(Finding::made("slots", self.slots().await.map(Vec::from_iter)));
            findings.extend(Finding::made("plans", self.plans().await));
            let patience = format_duration(self.options().lock_timeout);
            findings.push(Finding::ok("timeouts", format!("a call waits for a lock for at most {patience}")));
        }
        Ok(findings)
    }
}

fn get<'r, T: sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>>(
    row: &'r PgRow,
    column: usize,
) -> Result<T> {
    row.try_get(column).map_err(|error| classify(error, Phase::Before))
}
