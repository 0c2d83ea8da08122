//! People, requests and sagas in a PostgreSQL database.

use std::sync::Arc;

use pillarbox::postgres::{Options, Outbox, PostgresStore};
use pillarbox::{Error, ErrorKind, Handle, Saga, Sagas};
use sqlx::PgPool;

use crate::Failure;
use crate::database::Database;

const TABLES: &str = "
    create table if not exists people (id text primary key, name text not null);
    create table if not exists requests (person text primary key, saga uuid not null);
    create table if not exists erased (person text not null, saga uuid not null);";

#[derive(Clone)]
pub(crate) struct OnPostgres {
    store: PostgresStore,
    pool: PgPool,
}

impl OnPostgres {
    pub(crate) async fn open(url: &str) -> Result<Self, Failure> {
        let store = PostgresStore::connect(url, Options::default()).await?;
        store.migrate().await?;
        let pool = PgPool::connect(url).await?;
        sqlx::raw_sql(TABLES).execute(&pool).await?;
        Ok(Self { store, pool })
    }
}

impl Database for OnPostgres {
    type Store = PostgresStore;

    fn store(&self) -> Arc<PostgresStore> {
        Arc::new(self.store.clone())
    }

    fn sagas(&self) -> Arc<dyn Sagas> {
        Arc::new(self.store.sagas().on_end(|tx, saga| {
            Box::pin(async move {
                sqlx::query("insert into erased (person, saga) values ($1, $2)")
                    .bind(&saga.subject.value)
                    .bind(saga.id.0)
                    .execute(&mut **tx)
                    .await
                    .map_err(|error| {
                        Error::new(ErrorKind::Unavailable, "the end cannot be recorded").with_source(error)
                    })?;
                Ok(())
            })
        }))
    }

    async fn request(&self, person: &str, saga: Saga, relay: Handle) -> Result<bool, Failure> {
        let outbox = Outbox::new("erasures").wake(relay);
        let mut tx = self.pool.begin().await?;
        let known = sqlx::query("select 1 from requests where person = $1").bind(person);
        if known.fetch_optional(&mut *tx).await?.is_some() {
            return Ok(false);
        }
        // There would have been somebody before.
        sqlx::query("insert into people (id, name) values ($1, 'somebody named ' || $1)")
            .bind(person)
            .execute(&mut *tx)
            .await?;
        let staged = outbox.stage_saga(&mut tx, saga).await?;
        sqlx::query("insert into requests (person, saga) values ($1, $2)")
            .bind(person)
            .bind(staged.id().0)
            .execute(&mut *tx)
            .await?;
        outbox.commit(tx).await?;
        Ok(true)
    }

    async fn delete(&self, person: &str) -> sqlx::Result<bool> {
        let deleted = sqlx::query("delete from people where id = $1").bind(person);
        Ok(deleted.execute(&self.pool).await?.rows_affected() > 0)
    }
}
