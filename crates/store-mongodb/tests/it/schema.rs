//! Migrations: complete, repeatable, never half made, and refused with one clear line.

use mongodb::Client;
use mongodb::bson::{Bson, Document, doc};
use pillarbox_core::port::{Depth, Doctor, Schema, SchemaState, Severity};
use pillarbox_core::{ErrorKind, Retry};
use pillarbox_store_mongodb::{MongoStore, Options};

use crate::harness::{Database, MongoHarness, unique, url};
use crate::servers::Own;

async fn names(database: &Database) -> Vec<String> {
    let mut names = database.open().list_collection_names().await.unwrap();
    names.sort();
    names
}

#[tokio::test]
async fn a_migration_is_complete_and_the_second_changes_nothing() {
    let harness = MongoHarness::unmigrated(Options::default()).await;
    let store = harness.another().await;
    assert_eq!(store.inspect().await.unwrap(), SchemaState::Missing);
    let plan = store.plan().await.unwrap();
    assert!(plan.contains("pillarbox_outbox_open") && plan.contains("$jsonSchema"), "{plan}");
    assert!(names(&harness.database).await.is_empty(), "a plan makes nothing");
    let migrated = store.migrate().await.unwrap();
    assert_eq!((migrated.from, migrated.to), (0, 1));
    assert_eq!(store.inspect().await.unwrap(), SchemaState::Ready { warnings: vec![] });
    assert_eq!(store.plan().await.unwrap(), "");
    let migrated = store.migrate().await.unwrap();
    assert_eq!((migrated.from, migrated.to), (1, 1));
    let names = names(&harness.database).await;
    assert!(names.iter().all(|name| !name.contains("probe")), "{names:?}");
}

#[tokio::test]
async fn concurrent_migrations_end_well() {
    let harness = MongoHarness::unmigrated(Options::default()).await;
    let stores = [harness.another().await, harness.another().await, harness.another().await];
    for migrated in futures_util::future::join_all(stores.iter().map(|store| store.migrate())).await {
        migrated.unwrap();
    }
    assert_eq!(stores[0].inspect().await.unwrap(), SchemaState::Ready { warnings: vec![] });
}

#[tokio::test]
async fn a_migration_that_broke_off_is_finished_by_the_next() {
    let harness = MongoHarness::unmigrated(Options::default()).await;
    let (store, database) = (harness.another().await, harness.database.open());
    database.create_collection("pillarbox_outbox").await.unwrap();
    database.create_collection("pillarbox_lane").await.unwrap();
    assert_eq!(store.inspect().await.unwrap(), SchemaState::Missing);
    store.migrate().await.unwrap();
    assert_eq!(store.inspect().await.unwrap(), SchemaState::Ready { warnings: vec![] });
    // The validator is there as well.
    assert!(!harness.database.insert(doc! { "route": "orders" }).await);
}

#[tokio::test]
async fn what_is_missing_is_named_and_made_again_if_it_can_be() {
    let harness = MongoHarness::unmigrated(Options::default()).await;
    let store = harness.another().await;
    store.migrate().await.unwrap();
    let outbox = harness.database.open().collection::<Document>("pillarbox_outbox");
    outbox.drop_index("pillarbox_outbox_lane").await.unwrap();
    let SchemaState::Ready { warnings } = store.inspect().await.unwrap() else { panic!("it is ready") };
    assert!(warnings[0].contains("pillarbox_outbox_lane"), "{warnings:?}");
    store.migrate().await.unwrap();
    assert_eq!(store.inspect().await.unwrap(), SchemaState::Ready { warnings: vec![] });
    harness.database.open().collection::<Document>("pillarbox_lane").drop().await.unwrap();
    let error = store.inspect().await.unwrap().check().unwrap_err();
    assert!(error.to_string().contains("the collection pillarbox_lane is missing"), "{error}");
    let error = store.migrate().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Schema);
}

#[tokio::test]
async fn collections_of_a_later_version_are_refused() {
    let harness = MongoHarness::unmigrated(Options::default()).await;
    let store = harness.another().await;
    store.migrate().await.unwrap();
    let schema = harness.database.open().collection::<Document>("pillarbox_schema");
    schema.insert_one(doc! { "_id": 7_i64 }).await.unwrap();
    assert_eq!(store.inspect().await.unwrap(), SchemaState::Newer { found: 7, wanted: 1 });
    assert!(store.migrate().await.unwrap_err().to_string().contains("upgrade this program"));
}

#[tokio::test]
async fn a_foreign_index_of_the_same_name_is_named_and_nothing_is_made() {
    let harness = MongoHarness::unmigrated(Options::default()).await;
    let (store, database) = (harness.another().await, harness.database.open());
    let foreign = doc! { "key": { "mine": 1 }, "name": "pillarbox_outbox_open" };
    database.run_command(doc! { "createIndexes": "pillarbox_outbox", "indexes": [foreign] }).await.unwrap();
    let error = store.migrate().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Schema);
    assert!(error.to_string().contains("pillarbox_outbox_open of pillarbox_outbox"), "{error}");
    assert!(error.to_string().contains("Nothing was changed"), "{error}");
    assert_eq!(names(&harness.database).await, ["pillarbox_outbox"]);
}

#[tokio::test]
async fn a_collection_in_which_two_keys_could_be_one_is_named_and_nothing_is_made() {
    let harness = MongoHarness::unmigrated(Options::default()).await;
    let (store, database) = (harness.another().await, harness.database.open());
    let loose = doc! { "locale": "en", "strength": 1 };
    // A collection that is not ours may have one.
    database.run_command(doc! { "create": "pillarbox_notes", "collation": loose.clone() }).await.unwrap();
    database.run_command(doc! { "create": "pillarbox_lane", "collation": loose }).await.unwrap();
    for error in [store.migrate().await.unwrap_err(), store.plan().await.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Schema);
        let text = error.to_string();
        assert!(
            text.contains("has a collation") && text.contains(": pillarbox_lane. Nothing was changed"),
            "{text}"
        );
        assert!(!text.contains('\n'), "{text}");
    }
    assert_eq!(names(&harness.database).await, ["pillarbox_lane", "pillarbox_notes"]);
    database.collection::<Document>("pillarbox_lane").drop().await.unwrap();
    store.migrate().await.unwrap();
}

#[tokio::test]
async fn an_index_of_our_name_with_a_collation_is_a_foreign_one() {
    let harness = MongoHarness::unmigrated(Options::default()).await;
    let (store, database) = (harness.another().await, harness.database.open());
    store.migrate().await.unwrap();
    let sagas = database.collection::<Document>("pillarbox_saga");
    sagas.drop_index("pillarbox_saga_open").await.unwrap();
    let loose = doc! { "key": { "route": 1, "ended_at": 1 }, "name": "pillarbox_saga_open",
    "collation": { "locale": "en", "strength": 1 } };
    database.run_command(doc! { "createIndexes": "pillarbox_saga", "indexes": [loose] }).await.unwrap();
    let error = store.migrate().await.unwrap_err();
    assert!(error.to_string().contains("pillarbox_saga_open of pillarbox_saga"), "{error}");
}

#[tokio::test]
async fn what_a_plan_prints_makes_everything_that_a_migration_makes() {
    let harness = MongoHarness::unmigrated(Options::default()).await;
    let store = harness.another().await;
    let plan = store.plan().await.unwrap();
    for line in plan.lines() {
        // As mongosh reads it: the argument is extended JSON.
        let command = line.strip_prefix("db.runCommand(").and_then(|line| line.strip_suffix(");")).unwrap();
        let command: serde_json::Value = serde_json::from_str(command).unwrap();
        let Bson::Document(command) = Bson::try_from(command).unwrap() else { panic!("{line}") };
        harness.database.run(command).await;
    }
    assert_eq!(store.inspect().await.unwrap(), SchemaState::Ready { warnings: vec![] });
    assert_eq!(store.plan().await.unwrap(), "");
    // The validator is there as well.
    assert!(!harness.database.insert(doc! { "route": "orders" }).await);
    let migrated = store.migrate().await.unwrap();
    assert_eq!((migrated.from, migrated.to), (1, 1));
}

#[tokio::test]
async fn a_node_that_is_not_the_primary_is_refused_with_the_setting_to_change() {
    let own = Own::start("mongodb", "PILLARBOX_TEST_MONGODB");
    let url = own.url.replace("/?", "/shop?directConnection=true&");
    let url = url.replace("replicaSet=rs0&", "");
    let store = MongoStore::connect(&url, Options::default()).await.unwrap();
    store.migrate().await.unwrap();
    let of_the_set = async || {
        let found = store.examine(Depth::Full).await.unwrap();
        found.into_iter().find(|finding| finding.check == "replica_set").unwrap()
    };
    let well = of_the_set().await;
    assert!(well.severity == Severity::Ok && well.reason.contains("the primary of rs0"), "{well:?}");
    // The only member of the set gives up its place, and does not take it again before the test has ended.
    let client = Client::with_uri_str(&url).await.unwrap();
    let down = doc! { "replSetStepDown": 600, "force": true };
    client.database("admin").run_command(down).await.unwrap();
    for error in
        [MongoStore::connect(&url, Options::default()).await.unwrap_err(), store.migrate().await.unwrap_err()]
    {
        assert_eq!((error.kind(), error.retry()), (ErrorKind::ReadOnly, Retry::Later), "{error}");
        let text = error.to_string();
        assert!(text.contains("Remove directConnection=true") && !text.contains('\n'), "{text}");
    }
    let problem = of_the_set().await;
    assert_eq!(problem.severity, Severity::Problem, "{problem:?}");
    assert!(problem.reason.contains("not the primary of rs0") && problem.next.contains("?replicaSet="));
}

/// A user of this database alone, with this role.
async fn user(database: &Database, role: &str) -> String {
    let name = unique("u");
    let roles = vec![doc! { "role": role, "db": &database.name }];
    database.run(doc! { "createUser": &name, "pwd": "pw", "roles": roles }).await;
    let url = database.url();
    let (_, place) = url.split_once('@').unwrap();
    format!(
        "mongodb://{name}:pw@{}",
        place.replace("authSource=admin", &format!("authSource={}", database.name))
    )
}

#[tokio::test]
async fn a_user_who_may_only_read_changes_nothing_and_is_told_what_is_needed() {
    let harness = MongoHarness::unmigrated(Options::default()).await;
    let store =
        MongoStore::connect(&user(&harness.database, "read").await, Options::default()).await.unwrap();
    let error = store.migrate().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(error.to_string().contains("nothing was changed. Grant the role readWrite"), "{error}");
    assert!(names(&harness.database).await.is_empty());
    harness.database.run(doc! { "dropAllUsersFromDatabase": 1 }).await;
}

#[tokio::test]
async fn a_standalone_server_is_refused_before_anything_is_written() {
    let own = Own::start("mongodb-standalone", "PILLARBOX_TEST_MONGODB_STANDALONE");
    let server = &own.url;
    let name = unique("t");
    let url = format!("{server}{name}");
    let error = MongoStore::connect(&url, Options::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("not a member of a replica set"), "{error}");
    assert!(!error.to_string().contains('\n'), "{error}");
    let client = Client::with_uri_str(&url).await.unwrap();
    assert!(client.database(&name).list_collection_names().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_wrong_password_is_refused_without_it() {
    let url = url("shop");
    let (start, place) = url.split_once('@').unwrap();
    let (account, _) = start.rsplit_once(':').unwrap();
    let error =
        MongoStore::connect(&format!("{account}:canary@{place}"), Options::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(!format!("{error:?}").contains("canary"), "{error:?}");
}

#[tokio::test]
async fn a_url_without_a_database_is_refused() {
    let url = url("");
    let error = MongoStore::connect(&url, Options::default()).await.unwrap_err();
    assert!(error.to_string().contains("names no database"), "{error}");
}
