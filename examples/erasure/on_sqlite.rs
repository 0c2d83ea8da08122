//! People, requests and sagas in a SQLite file.

use std::sync::Arc;

use pillarbox::sqlite::{Options, Outbox, SqliteStore};
use pillarbox::{Error, ErrorKind, Handle, Saga, Sagas};

use crate::Failure;
use crate::database::Database;

const TABLES: &str = "
    create table if not exists people (id text primary key, name text not null);
    create table if not exists requests (person text primary key, saga text not null);
    create table if not exists erased (person text not null, saga text not null);";

#[derive(Clone)]
pub(crate) struct OnSqlite {
    store: SqliteStore,
}

impl OnSqlite {
    pub(crate) async fn open(url: &str) -> Result<Self, Failure> {
        let store = SqliteStore::connect(url, Options::default()).await?;
        store.migrate().await?;
        sqlx::raw_sql(TABLES).execute(store.pool()).await?;
        Ok(Self { store })
    }
}

impl Database for OnSqlite {
    type Store = SqliteStore;

    fn store(&self) -> Arc<SqliteStore> {
        Arc::new(self.store.clone())
    }

    fn sagas(&self) -> Arc<dyn Sagas> {
        Arc::new(self.store.sagas().on_end(|tx, saga| {
            Box::pin(async move {
                sqlx::query("insert into erased (person, saga) values (?, ?)")
                    .bind(&saga.subject.value)
                    .bind(saga.id.to_string())
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
        let mut tx = self.store.begin().await?;
        let known = sqlx::query("select 1 from requests where person = ?").bind(person);
        if known.fetch_optional(&mut *tx).await?.is_some() {
            return Ok(false);
        }
        // There would have been somebody before.
        sqlx::query("insert into people (id, name) values (?1, 'somebody named ' || ?1)")
            .bind(person)
            .execute(&mut *tx)
            .await?;
        let staged = outbox.stage_saga(&mut tx, saga).await?;
        sqlx::query("insert into requests (person, saga) values (?, ?)")
            .bind(person)
            .bind(staged.id().to_string())
            .execute(&mut *tx)
            .await?;
        outbox.commit(tx).await?;
        Ok(true)
    }

    async fn delete(&self, person: &str) -> sqlx::Result<bool> {
        let deleted = sqlx::query("delete from people where id = ?").bind(person);
        Ok(deleted.execute(self.store.pool()).await?.rows_affected() > 0)
    }
}
