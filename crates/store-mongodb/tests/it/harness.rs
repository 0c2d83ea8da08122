//! The store under the conformance suite: each case in a database of its own.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use mongodb::bson::{Binary, Bson, Document, Timestamp as Stamp, doc, spec::BinarySubtype};
use mongodb::{Client, ClientSession};
use pillarbox_conformance::{Ruin, SagaHarness, StoreHarness, Tamper};
use pillarbox_core::port::{Presence, SagaHooks, Sagas};
use pillarbox_core::{EventId, Timestamp};
use pillarbox_store_mongodb::{Inbox, MongoStore, Options, Outbox};

/// A migrated store in a database that goes away with it.
pub(crate) struct MongoHarness {
    store: Arc<MongoStore>,
    pub(crate) options: Options,
    pub(crate) database: Database,
    locks: Mutex<Vec<ClientSession>>,
}

/// The URL of a database on the server that tests run on.
pub(crate) fn url(database: &str) -> String {
    let server = std::env::var("PILLARBOX_TEST_MONGODB").unwrap_or_else(|_| {
        panic!(
            "PILLARBOX_TEST_MONGODB is not set: run `cargo xtask services mongodb -- cargo test -p \
             pillarbox-store-mongodb`, or set it to a URL of an administrator of a replica set"
        )
    });
    let (server, query) = server.split_once("/?").unwrap();
    format!("{server}/{database}?{query}")
}

/// A name that no other test has.
pub(crate) fn unique(word: &str) -> String {
    format!("{word}_{:016x}", pillarbox_host::random_u64())
}

/// A database that is dropped at the end.
pub(crate) struct Database {
    pub(crate) name: String,
    pub(crate) client: Client,
}

impl Database {
    pub(crate) async fn new() -> Self {
        let name = unique("t");
        let client = Client::with_uri_str(url(&name)).await.unwrap();
        Self { name, client }
    }

    pub(crate) fn url(&self) -> String {
        url(&self.name)
    }

    pub(crate) fn open(&self) -> mongodb::Database {
        self.client.database(&self.name)
    }

    /// Runs a command behind the port's back.
    pub(crate) async fn run(&self, command: Document) -> Document {
        let answer = self.open().run_command(command.clone()).await.unwrap();
        assert!(answer.get_array("writeErrors").is_err(), "{command}: {answer}");
        answer
    }

    /// Changes documents of the outbox, also to what its validator would refuse.
    pub(crate) async fn update(&self, filter: Document, update: Document) {
        let updates = vec![doc! { "q": filter, "u": update, "multi": true }];
        let command =
            doc! { "update": "pillarbox_outbox", "updates": updates, "bypassDocumentValidation": true };
        self.run(command).await;
    }

    /// A plain insert, as an application in any language does it. `false`: it is refused.
    pub(crate) async fn insert(&self, document: Document) -> bool {
        self.open().collection("pillarbox_outbox").insert_one(document).await.is_ok()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let name = self.name.clone();
        let done = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let client = Client::with_uri_str(url(&name)).await?;
                client.database(&name).drop().await
            })
        });
        // A test that failed already says why; what it left behind does not matter then.
        if !std::thread::panicking() {
            done.join().unwrap().unwrap();
        }
    }
}

impl MongoHarness {
    /// A migrated store with these settings.
    pub(crate) async fn with(options: Options) -> Self {
        let harness = Self::unmigrated(options).await;
        let migrated = harness.store.migrate().await.unwrap();
        assert_eq!((migrated.from, migrated.to), (0, 1));
        harness
    }

    /// A store without collections.
    pub(crate) async fn unmigrated(options: Options) -> Self {
        let database = Database::new().await;
        let store = MongoStore::connect(&database.url(), options.clone()).await.unwrap();
        Self {
            store: Arc::new(store),
            options: options.database(&database.name),
            database,
            locks: Mutex::default(),
        }
    }

    /// Another store on the same collections, as another process would open it.
    pub(crate) async fn another(&self) -> MongoStore {
        MongoStore::connect(&self.database.url(), self.options.clone()).await.unwrap()
    }
}

fn by_id(id: EventId) -> Document {
    doc! { "event_id": Binary { subtype: BinarySubtype::Uuid, bytes: id.0.as_bytes().to_vec() } }
}

fn bytes(payload: Vec<u8>) -> Binary {
    Binary { subtype: BinarySubtype::Generic, bytes: payload }
}

#[async_trait]
impl StoreHarness for MongoHarness {
    type Tx = ClientSession;
    type Outbox = Outbox;
    type Inbox = Inbox;
    type Store = MongoStore;

    const NAME: &'static str = "mongodb";

    async fn start() -> Self {
        Self::with(Options::default().causal_order(true)).await
    }

    fn store(&self) -> Arc<MongoStore> {
        Arc::clone(&self.store)
    }

    fn presence(&self) -> Option<Arc<dyn Presence>> {
        Some(self.store())
    }

    fn outbox(&self, route: &str) -> Outbox {
        Outbox::new(route).options(self.options.clone())
    }

    fn inbox(&self) -> Inbox {
        self.store.inbox()
    }

    async fn now(&self) -> Timestamp {
        let hello = self.database.run(doc! { "hello": 1 }).await;
        Timestamp::from_micros(hello.get_datetime("localTime").unwrap().timestamp_millis() * 1000).unwrap()
    }

    async fn begin(&self) -> ClientSession {
        let mut session = self.database.client.start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        session
    }

    async fn commit(&self, mut tx: ClientSession) {
        tx.commit_transaction().await.unwrap();
    }

    async fn rollback(&self, mut tx: ClientSession) {
        tx.abort_transaction().await.unwrap();
    }

    fn savepoints(&self) -> bool {
        false
    }

    async fn savepoint(&self, _tx: &mut ClientSession) {
        panic!("transactions of MongoDB have no savepoints");
    }

    async fn rollback_to_savepoint(&self, _tx: &mut ClientSession) {
        panic!("transactions of MongoDB have no savepoints");
    }

    async fn ruin(tx: &mut ClientSession, how: Ruin) -> bool {
        let client = tx.client();
        let own = client.default_database().unwrap().collection::<Document>("ruin");
        match how {
            // The server ends a transaction in which a command fails.
            Ruin::FailedStatement => {
                own.insert_one(doc! { "_id": 1 }).session(&mut *tx).await.unwrap();
                own.insert_one(doc! { "_id": 1 }).session(&mut *tx).await.unwrap_err();
            }
            Ruin::Ended => {
                own.insert_one(doc! { "_id": 2 }).session(&mut *tx).await.unwrap();
                kill(&client, tx).await;
            }
            _ => return false,
        }
        true
    }

    async fn tamper(&self, tamper: Tamper) -> bool {
        let database = &self.database;
        match tamper {
            Tamper::FailAudit => {
                let never = doc! { "$expr": false };
                database.run(doc! { "collMod": "pillarbox_audit", "validator": never }).await;
            }
            Tamper::RepairAudit => {
                database.run(doc! { "collMod": "pillarbox_audit", "validator": {} }).await;
            }
            Tamper::SpoilHeaders(id) => {
                database.update(by_id(id), doc! { "$set": { "headers": { "number": 1 } } }).await;
            }
            Tamper::DeleteEntry(id) => {
                let deletes = vec![doc! { "q": by_id(id), "limit": 0 }];
                database.run(doc! { "delete": "pillarbox_outbox", "deletes": deletes }).await;
            }
            Tamper::ForgetLeaseEnd(id) => {
                database.update(by_id(id), doc! { "$unset": { "due_at": "" } }).await;
            }
            Tamper::StagePlain { route, event_type, payload } => {
                assert!(
                    database
                        .insert(doc! { "route": route, "type": event_type, "payload": bytes(payload) })
                        .await
                );
            }
            Tamper::StageText { route, event_type, payload } => {
                assert!(
                    database.insert(doc! { "route": route, "type": event_type, "payload": payload }).await
                );
            }
            Tamper::StageKeyed { route, event_type, key, payload } => {
                let next = Stamp { time: 0, increment: 0 };
                let document = doc! {
                    "seq": next, "route": route, "type": event_type, "key": key, "payload": bytes(payload),
                };
                assert!(database.insert(document).await);
            }
            Tamper::StageWrong { id, column, value } => {
                let mut document = by_id(id);
                document.extend(doc! { "route": "orders", "type": "order.placed", "payload": "{}" });
                document.insert(column, parsed(value));
                return database.insert(document).await;
            }
            Tamper::LockEntry(id) => {
                let mut session = self.begin().await;
                let outbox = database.open().collection::<Document>("pillarbox_outbox");
                outbox
                    .update_one(by_id(id), doc! { "$set": { "locked": 1 } })
                    .session(&mut session)
                    .await
                    .unwrap();
                self.locks.lock().unwrap().push(session);
            }
            Tamper::UnlockEntries => {
                let locks = std::mem::take(&mut *self.locks.lock().unwrap());
                for mut session in locks {
                    session.abort_transaction().await.unwrap();
                }
            }
            _ => return false,
        }
        true
    }
}

/// A value of a plain insert, as a person would write it.
fn parsed(text: &str) -> Bson {
    if let Ok(number) = text.parse::<i64>() {
        return number.into();
    }
    if text == r#"{"number": 1}"# {
        return doc! { "number": 1 }.into();
    }
    text.into()
}

/// Ends a transaction from another connection, as an administrator does.
pub(crate) async fn kill(client: &Client, tx: &ClientSession) {
    let sessions = vec![tx.id().clone()];
    client.database("admin").run_command(doc! { "killSessions": sessions }).await.unwrap();
}

impl SagaHarness for MongoHarness {
    fn sagas(&self, hooks: SagaHooks<ClientSession>) -> Arc<dyn Sagas> {
        Arc::new(self.store.sagas().hooks(hooks))
    }
}
