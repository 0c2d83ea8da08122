//! The privileges that the guide asks for: what each kind of user can do with them, and no more.

use mongodb::bson::{Document, doc};
use mongodb::{Client, ClientSession};
use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{
    AcceptRequest, Accepted, Admin, Filter, Keep, Schema, SchemaState, SettleRequest, Settlement, Store,
    Verdict,
};
use pillarbox_core::{Failure, FailureKind, Reference, Saga, Step};
use pillarbox_store_mongodb::{MongoStore, Options};

use crate::harness::{MongoHarness, unique};
use crate::steps::{ROUTE, event, stage, wish};

/// Every collection but the audit trail.
const COLLECTIONS: [&str; 10] = [
    "inbox",
    "inbox_fence",
    "lane",
    "lane_session",
    "outbox",
    "relay",
    "route_state",
    "saga",
    "schema",
    "serial",
];

/// A user with privileges of its own alone.
struct Member {
    url: String,
    client: Client,
}

impl Member {
    async fn of(harness: &MongoHarness, privileges: &[(&str, &[&str])]) -> Self {
        let database = &harness.database;
        let (name, role) = (unique("u"), unique("r"));
        let granted = |(on, actions): &(&str, &[&str])| {
            let collection = if on.is_empty() { String::new() } else { format!("pillarbox_{on}") };
            let resource = doc! { "db": &database.name, "collection": collection };
            doc! { "resource": resource, "actions": actions.to_vec() }
        };
        let privileges: Vec<Document> = privileges.iter().map(granted).collect();
        database.run(doc! { "createRole": &role, "privileges": privileges, "roles": [] }).await;
        let roles = vec![doc! { "role": role, "db": &database.name }];
        database.run(doc! { "createUser": &name, "pwd": "pw", "roles": roles }).await;
        let url = database.url();
        let (_, place) = url.split_once('@').unwrap();
        let source = format!("authSource={}", database.name);
        let url = format!("mongodb://{name}:pw@{}", place.replace("authSource=admin", &source));
        Self { client: Client::with_uri_str(&url).await.unwrap(), url }
    }

    async fn begin(&self) -> ClientSession {
        let mut session = self.client.start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        session
    }

    /// The server does not let this user do it.
    async fn refused(&self, command: Document) {
        let database = self.client.default_database().unwrap();
        let error = database.run_command(command.clone()).await.unwrap_err();
        assert!(error.to_string().contains("not authorized"), "{command}: {error}");
    }

    async fn gone(self, harness: &MongoHarness) {
        harness.database.run(doc! { "dropAllUsersFromDatabase": 1 }).await;
        harness.database.run(doc! { "dropAllRolesFromDatabase": 1 }).await;
    }
}

fn removal(of: &str) -> Document {
    doc! { "delete": format!("pillarbox_{of}"), "deletes": [{ "q": {}, "limit": 0 }] }
}

fn rewriting(of: &str) -> Document {
    doc! { "update": format!("pillarbox_{of}"), "updates": [{ "q": {}, "u": { "$set": { "actor": "nobody" } } }] }
}

#[tokio::test]
async fn the_privileges_of_a_relay_are_enough_to_relay_and_operate_and_cannot_rewrite_the_audit_trail() {
    let harness = MongoHarness::with(Options::default()).await;
    let mut privileges: Vec<(&str, &[&str])> =
        COLLECTIONS.map(|name| (name, &["find", "insert", "update", "remove"][..])).to_vec();
    privileges.push(("audit", &["find", "insert"]));
    privileges.push(("", &["listCollections", "listIndexes"]));
    let member = Member::of(&harness, &privileges).await;
    let store = MongoStore::connect(&member.url, Options::default()).await.unwrap();
    assert!(matches!(store.inspect().await.unwrap(), SchemaState::Ready { .. }));
    stage(&harness, 2).await;
    let held = store.claim(wish(2)).await.unwrap().entries;
    let dead = Verdict::dead(Failure::new(FailureKind::Rejected, "unroutable", "nobody wants it"));
    let settlements = held.iter().zip([Verdict::Delivered, dead]);
    let settlements =
        settlements.map(|(entry, verdict)| Settlement { held: entry.held(), verdict }).collect();
    let request = SettleRequest { settlements, owner: "w".into(), keep: Keep::UntilPurged, now: None };
    assert_eq!(Store::settle(&store, request).await.unwrap().accepted, 2);
    assert_eq!(store.list(Filter::default()).await.unwrap().len(), 2);
    assert!(!store.counts(None).await.unwrap().is_empty());
    assert!(!store.audit(10).await.unwrap().is_empty(), "the dead one is on record");
    let mut tx = member.begin().await;
    let request = AcceptRequest::new("billing", held[0].event_id);
    assert_eq!(store.inbox().accept(&mut tx, request).await.unwrap(), Accepted::Fresh);
    tx.commit_transaction().await.unwrap();
    for command in [
        removal("audit"),
        rewriting("audit"),
        doc! { "drop": "pillarbox_outbox" },
        doc! { "collMod": "pillarbox_outbox", "validator": {} },
    ] {
        member.refused(command).await;
    }
    store.close().await;
    member.gone(&harness).await;
}

#[tokio::test]
async fn the_privileges_of_a_writer_are_enough_to_stage_and_for_nothing_else() {
    let harness = MongoHarness::with(Options::default()).await;
    let privileges: [(&str, &[&str]); 4] = [
        ("outbox", &["find", "insert"]),
        ("saga", &["find", "insert"]),
        ("schema", &["find"]),
        ("serial", &["insert", "update"]),
    ];
    let member = Member::of(&harness, &privileges).await;
    let outbox = harness.outbox(ROUTE);
    let mut tx = member.begin().await;
    outbox.serialize(&mut tx, "k").await.unwrap();
    let staged = outbox.stage(&mut tx, event(1)).await.unwrap();
    assert!(outbox.stage(&mut tx, event(1).id(staged.event_id())).await.unwrap().is_duplicate());
    assert_eq!(outbox.stage_all(&mut tx, [event(2), event(3)]).await.unwrap().len(), 2);
    let saga = Saga::group("erase", Reference::new("user", "u-7")).step(Step::new("mail", "mail.erase"));
    let _ = outbox.stage_saga(&mut tx, saga.build().unwrap()).await.unwrap();
    outbox.commit(tx).await.unwrap();
    assert_eq!(harness.store().list(Filter::default()).await.unwrap().len(), 4);
    for command in [
        doc! { "find": "pillarbox_audit" },
        removal("outbox"),
        rewriting("outbox"),
        rewriting("saga"),
        doc! { "insert": "pillarbox_inbox", "documents": [{}] },
    ] {
        member.refused(command).await;
    }
    member.gone(&harness).await;
}
