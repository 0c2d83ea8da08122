//! Tables of a command's own, in which it notes events in the transactions of an application: on every database.

use pillarbox_core::{Error, ErrorKind, Result};

use super::staging::{Staging, StagingTx, driver};

/// The statements that make the tables. No unique index: an effect that happened twice must be visible.
const TABLES: &str = "
create table if not exists pillarbox_demo_orders (run text not null, event_id text not null);
create table if not exists pillarbox_demo_effects (run text not null, event_id text not null);
";

/// Which of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notes {
    /// What was ordered.
    Orders,
    /// What took effect.
    Effects,
}

impl Notes {
    #[cfg(feature = "mongodb")]
    fn collection(self) -> &'static str {
        match self {
            Self::Orders => "pillarbox_demo_orders",
            Self::Effects => "pillarbox_demo_effects",
        }
    }

    /// The statement that notes an event, with the database's own parameters.
    fn insert(self, has_numbers: bool) -> &'static str {
        match (self, has_numbers) {
            (Self::Orders, true) => "insert into pillarbox_demo_orders (run, event_id) values ($1, $2)",
            (Self::Orders, false) => "insert into pillarbox_demo_orders (run, event_id) values (?, ?)",
            (Self::Effects, true) => "insert into pillarbox_demo_effects (run, event_id) values ($1, $2)",
            (Self::Effects, false) => "insert into pillarbox_demo_effects (run, event_id) values (?, ?)",
        }
    }

    /// The statement that reads the events of a run.
    fn select(self, has_numbers: bool) -> &'static str {
        match (self, has_numbers) {
            (Self::Orders, true) => "select event_id from pillarbox_demo_orders where run = $1",
            (Self::Orders, false) => "select event_id from pillarbox_demo_orders where run = ?",
            (Self::Effects, true) => "select event_id from pillarbox_demo_effects where run = $1",
            (Self::Effects, false) => "select event_id from pillarbox_demo_effects where run = ?",
        }
    }
}

impl Staging {
    /// Makes the tables.
    ///
    /// # Errors
    /// When the database refuses.
    pub async fn make_notes(&self) -> Result<()> {
        match self {
            #[cfg(feature = "mongodb")]
            Self::Mongo(store, _) => {
                for notes in [Notes::Orders, Notes::Effects] {
                    let made = store.database().create_collection(notes.collection()).await;
                    // 48: it is there.
                    if let Err(error) = made
                        && !matches!(&*error.kind, mongodb::error::ErrorKind::Command(error) if error.code == 48)
                    {
                        return Err(refused(&error));
                    }
                }
                Ok(())
            }
            _ => self.execute(TABLES).await,
        }
    }

    /// The events of a run that were noted.
    ///
    /// # Errors
    /// When the database refuses.
    pub async fn noted(&self, notes: Notes, run: &str) -> Result<Vec<String>> {
        match self {
            #[cfg(feature = "mongodb")]
            Self::Mongo(store, _) => {
                use futures_util::TryStreamExt;
                use mongodb::bson::{Document, doc};
                let noted = store.database().collection::<Document>(notes.collection());
                let found = noted.find(doc! { "run": run }).await.map_err(|error| refused(&error))?;
                let found: Vec<Document> = found.try_collect().await.map_err(|error| refused(&error))?;
                Ok(found
                    .iter()
                    .filter_map(|one| one.get_str("event_id").ok().map(ToOwned::to_owned))
                    .collect())
            }
            _ => self.texts(notes.select(self.has_numbers()), run).await,
        }
    }

    /// Whether parameters are written with numbers.
    pub(super) fn has_numbers(&self) -> bool {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(..) => true,
            _ => false,
        }
    }
}

impl StagingTx {
    /// Notes an event in this transaction.
    ///
    /// # Errors
    /// When the database refuses.
    pub async fn note(&mut self, notes: Notes, run: &str, id: &str) -> Result<()> {
        match self {
            Self::Sqlite(tx) => {
                let insert = sqlx::query(notes.insert(false)).bind(run).bind(id);
                insert.execute(&mut **tx).await.map(drop).map_err(driver)
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(tx) => {
                let insert = sqlx::query(notes.insert(true)).bind(run).bind(id);
                insert.execute(&mut **tx).await.map(drop).map_err(driver)
            }
            #[cfg(feature = "mysql")]
            Self::MySql(tx) => {
                let insert = sqlx::query(notes.insert(false)).bind(run).bind(id);
                insert.execute(&mut **tx).await.map(drop).map_err(driver)
            }
            #[cfg(feature = "mongodb")]
            Self::Mongo(tx, database) => {
                use mongodb::bson::{Document, doc};
                let noted = database.collection::<Document>(notes.collection());
                let note = noted.insert_one(doc! { "run": run, "event_id": id }).session(&mut **tx);
                note.await.map(drop).map_err(|error| refused(&error))
            }
        }
    }
}

/// What the driver of MongoDB says of a command of our own: no values of anybody are in it.
#[cfg(feature = "mongodb")]
pub(super) fn refused(error: &mongodb::error::Error) -> Error {
    Error::new(ErrorKind::Internal, format!("the database rejected the command: {error}"))
}

#[cfg(not(feature = "mongodb"))]
#[expect(dead_code, reason = "only the error of one database is made here")]
fn refused(text: &str) -> Error {
    Error::new(ErrorKind::Internal, text)
}
