//! The database under the storm, as the writers see it: plain inserts in their own transactions.

use mongodb::bson::{Document, Timestamp, doc};
use mongodb::{Client, ClientSession, Collection};
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, PgConnection};
use uuid::Uuid;

use crate::home::{Home, mongodb, mysql, postgres};
use crate::many_relays::{on_mongodb, on_mysql, on_postgres};

/// Where a storm is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    MongoDb,
    MySql,
    Postgres,
}

/// An outbox of the test's own, and a directory whose configuration names it.
pub(super) struct Database {
    pub(super) home: Home,
    kind: Kind,
    /// The part of the configuration that names it.
    pub(super) section: String,
    /// The statement of a writer, or the name of the collection.
    insert: String,
}

impl Database {
    pub(super) fn new(kind: Kind) -> Self {
        let (home, key) = match kind {
            Kind::MongoDb => (on_mongodb(), "prefix"),
            Kind::MySql => (on_mysql(), "prefix"),
            Kind::Postgres => (on_postgres(), "schema"),
        };
        let section = home.read("pillarbox.toml");
        let settings: toml::Table = section.parse().unwrap();
        let name = settings["database"][key].as_str().unwrap();
        let insert = match kind {
            Kind::MongoDb => format!("{name}_outbox"),
            Kind::MySql => format!(
                "insert into {name}_outbox (event_id, route, type, `key`, payload) values (?, 'orders', 't', ?, '7')"
            ),
            Kind::Postgres => format!(
                "insert into {name}.pillarbox_outbox (event_id, route, type, key, payload) \
                 values ($1, 'orders', 't', $2, '7')"
            ),
        };
        Self { home, kind, section, insert }
    }

    pub(super) async fn connect(&self) -> Session {
        let insert = self.insert.clone();
        let connection = match self.kind {
            Kind::MongoDb => {
                let client = Client::with_uri_str(mongodb()).await.unwrap();
                let outbox = client.default_database().unwrap().collection(&insert);
                Connected::MongoDb(Box::new(client.start_session().await.unwrap()), outbox)
            }
            Kind::MySql => Connected::MySql(MySqlConnection::connect(&mysql()).await.unwrap()),
            Kind::Postgres => Connected::Postgres(PgConnection::connect(&postgres()).await.unwrap()),
        };
        Session { connection, insert }
    }
}

enum Connected {
    MongoDb(Box<ClientSession>, Collection<Document>),
    MySql(MySqlConnection),
    Postgres(PgConnection),
}

/// A connection of a writer.
pub(super) struct Session {
    connection: Connected,
    insert: String,
}

impl Session {
    pub(super) async fn begin(&mut self) {
        match &mut self.connection {
            Connected::MongoDb(session, _) => session.start_transaction().await.unwrap(),
            _ => self.run("begin").await,
        }
    }

    pub(super) async fn commit(&mut self) {
        match &mut self.connection {
            Connected::MongoDb(session, _) => session.commit_transaction().await.unwrap(),
            _ => self.run("commit").await,
        }
    }

    pub(super) async fn roll_back(&mut self) {
        match &mut self.connection {
            Connected::MongoDb(session, _) => session.abort_transaction().await.unwrap(),
            _ => self.run("rollback").await,
        }
    }

    async fn run(&mut self, statement: &'static str) {
        let run = sqlx::raw_sql(statement);
        match &mut self.connection {
            Connected::MongoDb(..) => Ok(()),
            Connected::MySql(connection) => run.execute(connection).await.map(|_| ()),
            Connected::Postgres(connection) => run.execute(connection).await.map(|_| ()),
        }
        .unwrap();
    }

    pub(super) async fn stage(&mut self, id: Uuid, key: &str) {
        let insert = AssertSqlSafe(self.insert.clone());
        match &mut self.connection {
            Connected::MongoDb(session, outbox) => {
                let event = doc! {
                    // The server puts its own stamp there.
                    "seq": Timestamp { time: 0, increment: 0 },
                    "event_id": mongodb::bson::Uuid::from_bytes(id.into_bytes()),
                    "route": "orders", "type": "t", "key": key, "payload": "7",
                };
                outbox.insert_one(event).session(&mut **session).await.unwrap();
                Ok(())
            }
            Connected::MySql(connection) => {
                sqlx::query(insert).bind(id).bind(key).execute(connection).await.map(|_| ())
            }
            Connected::Postgres(connection) => {
                sqlx::query(insert).bind(id).bind(key).execute(connection).await.map(|_| ())
            }
        }
        .unwrap();
    }
}
