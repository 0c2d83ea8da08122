//! Raw loops: what somebody would write by hand, on a plain table, in plain SQL.

use sqlx::{ColumnIndex, Decode, Row, Type};

#[cfg(feature = "mongodb")]
use super::documents::Documents;
use super::ground::load;
use super::stats::rate;
use crate::database::Staging;
use crate::fault::Fault;

/// How a raw loop takes rows and lets go of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Design {
    /// Claim `UPDATE … RETURNING` (on MySQL a locking `SELECT` and an `UPDATE`, on MongoDB a `findOneAndUpdate` each), settle `UPDATE`: what most hand-written
    /// outboxes do.
    Classic,
    /// One reader above its own cursor, settle `UPDATE`: what a lane comes to when entries are kept.
    LaneKept,
    /// The same, settle `DELETE`.
    LaneDeleted,
}

/// A plain table in the tables of a measurement.
pub struct Raw<'a> {
    staging: &'a Staging,
    sql: &'static Sql,
    #[cfg(feature = "mongodb")]
    documents: Option<Documents>,
}

impl<'a> Raw<'a> {
    /// The one of this database.
    #[must_use]
    pub fn of(staging: &'a Staging) -> Self {
        let sql = match staging {
            Staging::Sqlite(..) => &SQLITE,
            #[cfg(feature = "postgres")]
            Staging::Postgres(..) => &POSTGRES,
            #[cfg(feature = "mysql")]
            Staging::MySql(..) => &MYSQL,
            // Written in commands of its own.
            #[cfg(feature = "mongodb")]
            Staging::Mongo(..) => &SQLITE,
        };
        #[cfg(feature = "mongodb")]
        let documents = match staging {
            Staging::Mongo(store, _) => Some(Documents::of(store)),
            _ => None,
        };
        Self {
            staging,
            sql,
            #[cfg(feature = "mongodb")]
            documents,
        }
    }

    /// Creates it.
    pub(super) async fn create(&self) -> Result<(), Fault> {
        #[cfg(feature = "mongodb")]
        if let Some(documents) = &self.documents {
            return documents.create().await;
        }
        Ok(self.staging.execute(self.sql.create).await?)
    }

    /// Empties it and fills it again.
    ///
    /// # Errors
    /// When the database refuses.
    pub async fn fill(&self, rows: u32, payload: &[u8]) -> Result<(), Fault> {
        #[cfg(feature = "mongodb")]
        if let Some(documents) = &self.documents {
            return documents.fill(rows, payload).await;
        }
        self.staging.execute(self.sql.clear).await?;
        load(self.staging, self.sql.load, payload, rows, 0).await
    }

    /// Drains it and says how fast. `passed` hears how many were settled, after each batch.
    ///
    /// # Errors
    /// When the database refuses.
    pub async fn drain(&self, batch: u32, design: Design, mut passed: impl FnMut(u64)) -> Result<f64, Fault> {
        let started = std::time::Instant::now();
        let (mut drained, mut cursor) = (0_u64, 0);
        loop {
            let ids = self.take(batch, design, cursor).await?;
            let Some(last) = ids.iter().max() else { break };
            cursor = *last;
            self.settle(design, &ids).await?;
            drained += u64::try_from(ids.len()).unwrap_or(0);
            passed(drained);
        }
        Ok(rate(drained, started))
    }

    async fn take(&self, batch: u32, design: Design, cursor: i64) -> Result<Vec<i64>, Fault> {
        #[cfg(feature = "mongodb")]
        if let Some(documents) = &self.documents {
            return documents.take(batch, design, cursor).await;
        }
        self.take_rows(batch, design, cursor).await.map_err(failed)
    }

    async fn settle(&self, design: Design, ids: &[i64]) -> Result<(), Fault> {
        #[cfg(feature = "mongodb")]
        if let Some(documents) = &self.documents {
            return documents.settle(design, ids).await;
        }
        self.settle_rows(design, ids).await.map_err(failed)
    }

    async fn take_rows(&self, batch: u32, design: Design, cursor: i64) -> sqlx::Result<Vec<i64>> {
        let limit = i64::from(batch);
        let claims = design == Design::Classic;
        // The type of a query names its database, so it is written once for each.
        macro_rules! taken {
            ($store:expr) => {{
                let query = if claims {
                    sqlx::query(self.sql.claim).bind(limit)
                } else {
                    sqlx::query(self.sql.read).bind(cursor).bind(limit)
                };
                query.fetch_all($store.pool()).await?.iter().map(id_of).collect()
            }};
        }
        match self.staging {
            Staging::Sqlite(store, _) => taken!(store),
            #[cfg(feature = "postgres")]
            Staging::Postgres(store, _) => taken!(store),
            #[cfg(feature = "mysql")]
            Staging::MySql(store, _) if claims => {
                let mut tx = store.pool().begin().await?;
                let rows = sqlx::query(self.sql.claim).bind(limit).fetch_all(&mut *tx).await?;
                let ids = rows.iter().map(id_of).collect::<sqlx::Result<Vec<i64>>>()?;
                if !ids.is_empty() {
                    of_ids(MYSQL_TAKE, &ids).build().execute(&mut *tx).await?;
                }
                tx.commit().await?;
                Ok(ids)
            }
            #[cfg(feature = "mysql")]
            Staging::MySql(store, _) => taken!(store),
            #[cfg(feature = "mongodb")]
            Staging::Mongo(..) => Ok(vec![]),
        }
    }

    async fn settle_rows(&self, design: Design, ids: &[i64]) -> sqlx::Result<()> {
        let sql = match design {
            Design::Classic | Design::LaneKept => self.sql.settle,
            Design::LaneDeleted => self.sql.delete,
        };
        match self.staging {
            Staging::Sqlite(store, _) => {
                sqlx::query(sql).bind(json(ids)?).execute(store.pool()).await.map(|_| ())
            }
            #[cfg(feature = "postgres")]
            Staging::Postgres(store, _) => sqlx::query(sql).bind(ids).execute(store.pool()).await.map(|_| ()),
            #[cfg(feature = "mysql")]
            Staging::MySql(store, _) => of_ids(sql, ids).build().execute(store.pool()).await.map(|_| ()),
            #[cfg(feature = "mongodb")]
            Staging::Mongo(..) => Ok(()),
        }
    }
}

// Type and payload are read as a relay would have to, to publish them.
fn id_of<R: Row>(row: &R) -> sqlx::Result<i64>
where
    usize: ColumnIndex<R>,
    for<'r> String: Decode<'r, R::Database> + Type<R::Database>,
    for<'r> Vec<u8>: Decode<'r, R::Database> + Type<R::Database>,
    for<'r> i64: Decode<'r, R::Database> + Type<R::Database>,
{
    std::hint::black_box((row.try_get::<String, _>(1)?, row.try_get::<Vec<u8>, _>(2)?));
    row.try_get(0)
}

/// An array, where the database has no type for one.
fn json(ids: &[i64]) -> sqlx::Result<String> {
    serde_json::to_string(ids).map_err(|error| sqlx::Error::Encode(Box::new(error)))
}

/// A statement with as many marks in its list as there are ids. All batches but the last have one length, so it is prepared
/// twice at most.
#[cfg(feature = "mysql")]
fn of_ids(sql: &'static str, ids: &[i64]) -> sqlx::QueryBuilder<sqlx::MySql> {
    let (before, after) = sql.split_once(IDS).unwrap_or((sql, ""));
    let mut query = sqlx::QueryBuilder::new(before);
    let mut list = query.separated(", ");
    ids.iter().for_each(|id| {
        list.push_bind(*id);
    });
    query.push(after);
    query
}

fn failed(error: sqlx::Error) -> Fault {
    Fault::failed(format!("a raw loop failed: {error}"))
}

/// One database's statements. All names are constants; all values are bound.
struct Sql {
    /// Creates the table.
    create: &'static str,
    /// Empties it.
    clear: &'static str,
    /// Pending rows. `$1` payload, `$2` how many, `$3` is not looked at.
    load: &'static str,
    /// The classic claim: oldest first over a sort index, written at once. `$1` limit.
    claim: &'static str,
    /// The classic settle. `$1` ids: an array on PostgreSQL, JSON on SQLite, a list of marks on MySQL.
    settle: &'static str,
    /// What a lane does instead of a claim: the next rows above a cursor, nothing written. `$1` cursor, `$2` limit.
    read: &'static str,
    /// The settle that keeps nothing. `$1` as above.
    delete: &'static str,
}

const SQLITE: Sql = Sql {
    create: "
        create table pillarbox_bench_classic (
            id integer primary key autoincrement, type text not null, payload blob not null,
            status text not null default 'pending', attempts integer not null default 0,
            due_at integer not null default 0, locked_until integer, created_at integer not null default 0,
            done_at integer);
        create index pillarbox_bench_classic_due on pillarbox_bench_classic (status, due_at, id);",
    clear: "delete from pillarbox_bench_classic",
    load: "
        with recursive n (i) as (select 1 union all select i + 1 from n where i < $2)
        insert into pillarbox_bench_classic (type, payload) select 'bench.event', $1 from n where $3 >= 0",
    claim: "
        update pillarbox_bench_classic
        set status = 'processing', attempts = attempts + 1, locked_until = unixepoch() + 30
        where id in (
            select id from pillarbox_bench_classic
            where status = 'pending' and due_at <= unixepoch() order by due_at, id limit $1)
        returning id, type, payload",
    settle: "
        update pillarbox_bench_classic set status = 'done', locked_until = null, done_at = unixepoch()
        where id in (select value from json_each($1))",
    read: "
        select id, type, payload from pillarbox_bench_classic
        where id > $1 and status = 'pending' order by id limit $2",
    delete: "delete from pillarbox_bench_classic where id in (select value from json_each($1))",
};

#[cfg(feature = "postgres")]
const POSTGRES: Sql = Sql {
    create: "
        create table pillarbox_bench.classic (
            id bigserial primary key, type text not null, payload bytea not null,
            status text not null default 'pending', attempts integer not null default 0,
            due_at timestamptz not null default now(), locked_until timestamptz,
            created_at timestamptz not null default now(), done_at timestamptz);
        create index classic_due on pillarbox_bench.classic (status, due_at, id);",
    clear: "truncate pillarbox_bench.classic",
    load: "
        insert into pillarbox_bench.classic (type, payload)
        select 'bench.event', $1 from generate_series(1, $2) where $3 >= 0",
    claim: "
        update pillarbox_bench.classic
        set status = 'processing', attempts = attempts + 1, locked_until = now() + interval '30 seconds'
        where id in (
            select id from pillarbox_bench.classic
            where status = 'pending' and due_at <= now() order by due_at, id limit $1 for update skip locked)
        returning id, type, payload",
    settle: "
        update pillarbox_bench.classic set status = 'done', locked_until = null, done_at = now()
        where id = any ($1)",
    read: "
        select id, type, payload from pillarbox_bench.classic
        where id > $1 and status = 'pending' order by id limit $2",
    delete: "delete from pillarbox_bench.classic where id = any ($1)",
};

#[cfg(feature = "mysql")]
const MYSQL: Sql = Sql {
    create: "
        create table pillarbox_bench_classic (
            id bigint auto_increment primary key, type varchar(200) not null, payload longblob not null,
            status varchar(20) not null default 'pending', attempts integer not null default 0,
            due_at datetime(6) not null default now(6), locked_until datetime(6),
            created_at datetime(6) not null default now(6), done_at datetime(6),
            key pillarbox_bench_classic_due (status, due_at, id))",
    clear: "truncate pillarbox_bench_classic",
    load: "
        insert into pillarbox_bench_classic (type, payload)
        select 'bench.event', ? from (
            select d1.i + d2.i * 10 + d3.i * 100 + d4.i * 1000 + d5.i * 10000 as n
            from json_table('[0,1,2,3,4,5,6,7,8,9]', '$[*]' columns (i integer path '$')) d1,
                 json_table('[0,1,2,3,4,5,6,7,8,9]', '$[*]' columns (i integer path '$')) d2,
                 json_table('[0,1,2,3,4,5,6,7,8,9]', '$[*]' columns (i integer path '$')) d3,
                 json_table('[0,1,2,3,4,5,6,7,8,9]', '$[*]' columns (i integer path '$')) d4,
                 json_table('[0,1,2,3,4,5,6,7,8,9]', '$[*]' columns (i integer path '$')) d5) numbers
        where n < ? and ? >= 0",
    claim: "
        select id, type, payload from pillarbox_bench_classic
        where status = 'pending' and due_at <= now(6) order by due_at, id limit ? for update skip locked",
    settle: "
        update pillarbox_bench_classic set status = 'done', locked_until = null, done_at = now(6) where id in ({ids})",
    read: "
        select id, type, payload from pillarbox_bench_classic
        where id > ? and status = 'pending' order by id limit ?",
    delete: "delete from pillarbox_bench_classic where id in ({ids})",
};

/// Where the marks of a list stand: a join with a list as JSON would take half as long again.
#[cfg(feature = "mysql")]
const IDS: &str = "{ids}";

/// The second half of the classic claim.
#[cfg(feature = "mysql")]
const MYSQL_TAKE: &str = "
    update pillarbox_bench_classic
    set status = 'processing', attempts = attempts + 1, locked_until = now(6) + interval 30 second
    where id in ({ids})";
