//! URLs, files and who may read them.

use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{Admin, Depth, Doctor, Filter, Schema, SchemaState, Severity, Store, Verdict};
use pillarbox_core::{ErrorKind, Retry};
use pillarbox_store_sqlite::{Options, SqliteStore, app_pool};
use tempfile::TempDir;

use crate::harness::{SqliteHarness, url};
use crate::steps::*;

async fn refused(url: &str) -> pillarbox_core::Error {
    SqliteStore::connect(url, Options::default()).await.unwrap_err()
}

#[tokio::test]
async fn a_url_of_something_else_is_refused_without_being_shown() {
    for url in ["postgres://u:canary@h/d", "canary", "", "sqlite:", "sqlite://", "sqlite://x?mode=canary"] {
        let error = refused(url).await;
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_is_made_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let harness = SqliteHarness::start().await;
    stage(&harness, 1).await;
    let mut files = 0;
    for file in std::fs::read_dir(harness.directory.path()).unwrap() {
        let file = file.unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", file.file_name());
        files += 1;
    }
    assert!(files >= 2, "the log has the same rights as the file");
}

#[tokio::test]
async fn a_file_that_must_be_there_is_not_made() {
    let directory = TempDir::new().unwrap();
    for mode in ["ro", "rw"] {
        let error = refused(&format!("{}?mode={mode}", url(&directory))).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    let error = refused(&format!("sqlite://{}/no/such/x.db", directory.path().display())).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

#[tokio::test]
async fn a_read_only_store_reads_and_refuses_to_write() {
    let harness = SqliteHarness::start().await;
    stage(&harness, 2).await;
    let store = SqliteStore::connect(&format!("{}?mode=ro", url(&harness.directory)), Options::default())
        .await
        .unwrap();
    assert_eq!(store.list(Filter::default()).await.unwrap().len(), 2);
    assert_eq!(store.counts(None).await.unwrap()[0].undrained(), 2);
    let error = store.claim(wish(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
    let found = store.examine(Depth::Start).await.unwrap();
    let rights = found.iter().find(|finding| finding.check == "rights").expect("the doctor does not tell");
    assert!(rights.severity == Severity::Problem && rights.reason.contains("read-only"), "{rights:?}");
    let found = harness.store().examine(Depth::Start).await.unwrap();
    assert!(found.iter().all(|finding| finding.severity == Severity::Ok), "{found:?}");
}

#[tokio::test]
async fn a_store_tells_the_connections_of_all_its_pools() {
    let harness = SqliteHarness::start().await;
    let told = |store: &SqliteStore| Admin::connections(store).unwrap();
    let own = SqliteStore::connect(&url(&harness.directory), Options::default()).await.unwrap();
    let pool = told(&own);
    // Eight for applications and operators, four to read lanes with, and the writer.
    assert_eq!(pool.max, 13);
    assert!(pool.open >= 2 && pool.idle <= pool.open, "{pool:?}");
    let one = SqliteStore::connect("sqlite::memory:", Options::default()).await.unwrap();
    assert_eq!(told(&one).max, 1);
    let shared = SqliteStore::new(own.pool().clone(), Options::default()).unwrap();
    assert_eq!(told(&shared).max, 8, "the application's pool is counted once");
}

#[tokio::test]
async fn a_file_of_something_else_is_corrupt_not_overwritten() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("pillarbox.db");
    let text = "this is not a database, and it is long enough to have a header of one ".repeat(20);
    std::fs::write(&path, &text).unwrap();
    let error = refused(&url(&directory)).await;
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[tokio::test]
async fn a_store_in_memory_works_on_its_one_connection() {
    let store = SqliteStore::connect("sqlite::memory:", Options::default()).await.unwrap();
    assert_eq!(store.migrate().await.unwrap().to, 1);
    let mut tx = store.pool().begin().await.unwrap();
    assert_eq!(outbox().stage_all(&mut tx, (0..3).map(event)).await.unwrap().len(), 3);
    tx.commit().await.unwrap();
    let held = claim(&store, 10).await;
    assert_eq!(settle(&store, &held, Verdict::Delivered).await.accepted, 3);
    let other = SqliteStore::connect("sqlite::memory:", Options::default()).await.unwrap();
    assert_eq!(other.inspect().await.unwrap(), SchemaState::Missing, "two of them are two databases");
}

#[tokio::test]
async fn an_application_can_stage_on_a_pool_of_its_own() {
    let harness = SqliteHarness::start().await;
    let pool = app_pool(&url(&harness.directory)).await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    assert_eq!(outbox().stage_all(&mut tx, (0..3).map(event)).await.unwrap().len(), 3);
    outbox().commit(tx).await.unwrap();
    let durable: i64 = sqlx::query_scalar("pragma synchronous").fetch_one(&pool).await.unwrap();
    assert_eq!(durable, 2, "a commit of the application is on disk when it returns");
    assert_eq!(claim(&harness.store(), 10).await.len(), 3);
}

#[tokio::test]
async fn a_store_on_an_applications_pool_leaves_its_settings_as_they_were() {
    let harness = SqliteHarness::start().await;
    stage(&harness, 2).await;
    let options: sqlx::sqlite::SqliteConnectOptions = url(&harness.directory).parse().unwrap();
    let options = options.synchronous(sqlx::sqlite::SqliteSynchronous::Normal);
    let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect_with(options).await.unwrap();
    let store = SqliteStore::new(pool.clone(), Options::default()).unwrap();
    let held = claim(&store, 10).await;
    assert_eq!(settle(&store, &held, dead()).await.accepted, 2);
    let level: i64 = sqlx::query_scalar("pragma synchronous").fetch_one(&pool).await.unwrap();
    assert_eq!(level, 1);
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_was_deleted_or_replaced_is_noticed_and_nothing_is_written_to_it() {
    let harness = SqliteHarness::start().await;
    stage(&harness, 2).await;
    let (store, directory) = (harness.store(), harness.directory.path());
    let files = ["pillarbox.db", "pillarbox.db-wal", "pillarbox.db-shm"];
    let aside = directory.join("aside");
    std::fs::create_dir(&aside).unwrap();
    let put_aside =
        || files.iter().for_each(|file| std::fs::rename(directory.join(file), aside.join(file)).unwrap());
    let noticed = async || {
        let claimed = store.claim(wish(10)).await.map(drop);
        let begun = store.begin().await.map(drop);
        for error in [claimed.unwrap_err(), begun.unwrap_err()] {
            assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, Retry::Later), "{error}");
            assert!(error.to_string().contains("deleted or replaced"), "{error}");
        }
    };
    put_aside();
    noticed().await;
    let other = SqliteStore::connect(&url(&harness.directory), Options::default()).await.unwrap();
    let _ = other.migrate().await.unwrap();
    noticed().await;
    assert!(claim(&other, 10).await.is_empty(), "whoever opens it now works on what is there");
    other.close().await;
    for file in files {
        let _ = std::fs::remove_file(directory.join(file));
        std::fs::rename(aside.join(file), directory.join(file)).unwrap();
    }
    assert_eq!(claim(&store, 10).await.len(), 2, "put back, it goes on");
}
