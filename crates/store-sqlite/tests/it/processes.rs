//! Several processes on one file. The children are this very test binary, told by a variable what to do.

use std::collections::BTreeSet;
use std::process::Stdio;

use pillarbox_conformance::StoreHarness;
use pillarbox_core::ErrorKind;
use pillarbox_core::port::{Admin, Company, Store, Verdict};
use pillarbox_store_sqlite::{Options, SqliteStore};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::harness::{SqliteHarness, url};
use crate::steps::*;

const URL: &str = "PILLARBOX_TEST_URL";

/// Starts this binary again as the child of that name.
fn child(name: &str, directory: &TempDir) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([format!("processes::{name}").as_str(), "--exact", "--nocapture", "--test-threads=1"])
        .env(URL, url(directory))
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

async fn store() -> Option<SqliteStore> {
    let url = std::env::var(URL).ok()?;
    Some(SqliteStore::connect(&url, Options::default()).await.unwrap())
}

/// In a child: drains the file and prints what it delivered.
#[tokio::test]
async fn child_drains() {
    let Some(store) = store().await else { return };
    loop {
        let entries = match store.claim(wish(50)).await {
            Ok(claim) if claim.entries.is_empty() => return,
            Ok(claim) => claim.entries,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Contention, "{error}");
                continue;
            }
        };
        while let Err(error) = store.settle(settlement(&entries, Verdict::Delivered)).await {
            assert_eq!(error.kind(), ErrorKind::Contention, "{error}");
        }
        for entry in entries {
            println!("\ndelivered {}", entry.seq);
        }
    }
}

/// In a child: claims and then hangs until it is killed.
#[tokio::test]
async fn child_claims_and_hangs() {
    let Some(store) = store().await else { return };
    println!("\nclaimed {}", claim(&store, 3).await.len());
    std::future::pending::<()>().await;
}

/// In a child: migrates.
#[tokio::test]
async fn child_migrates() {
    let Some(store) = store().await else { return };
    println!("\nmigrated from {}", store.migrate().await.unwrap().from);
}

async fn said(child: Child, word: &str) -> Vec<String> {
    let output = child.wait_with_output().await.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    text.lines().filter_map(|line| line.strip_prefix(word)).map(|rest| rest.trim().to_owned()).collect()
}

#[tokio::test]
async fn four_processes_drain_one_file_without_loss_or_duplicate() {
    let harness = SqliteHarness::start().await;
    stage(&harness, 2_000).await;
    let children: Vec<_> = (0..4).map(|_| child("child_drains", &harness.directory)).collect();
    let mut delivered = Vec::new();
    for child in children {
        delivered.extend(said(child, "delivered").await);
    }
    assert_eq!(delivered.len(), 2_000);
    assert_eq!(delivered.iter().collect::<BTreeSet<_>>().len(), 2_000);
    assert_eq!(harness.store().counts(None).await.unwrap()[0].undrained(), 0);
    assert_eq!(harness.number("select max(attempts) from pillarbox_outbox").await, 1);
}

#[tokio::test]
async fn four_processes_migrate_one_fresh_file() {
    let directory = TempDir::new().unwrap();
    let children: Vec<_> = (0..4).map(|_| child("child_migrates", &directory)).collect();
    let mut from = Vec::new();
    for child in children {
        from.extend(said(child, "migrated from").await);
    }
    from.sort();
    assert_eq!(from, ["0", "1", "1", "1"]);
}

#[tokio::test]
async fn what_a_killed_process_had_claimed_moves_again_after_its_lease() {
    let harness = SqliteHarness::start().await;
    stage(&harness, 3).await;
    let mut killed = child("child_claims_and_hangs", &harness.directory);
    let mut lines = BufReader::new(killed.stdout.take().unwrap()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        if line.starts_with("claimed 3") {
            break;
        }
    }
    killed.kill().await.unwrap();
    assert!(claim(&harness.store(), 10).await.is_empty(), "the lease is still there");
    let later = harness.now().await.saturating_add(wish(1).lease);
    let mut request = wish(10);
    request.now = Some(later);
    request.company = Company::Suspects { beside: 0 };
    assert_eq!(harness.store().reap(reap_at(later)).await.unwrap().released, 3);
    let again = harness.store().claim(request).await.unwrap().entries;
    assert_eq!(again.iter().map(|entry| entry.attempts).collect::<Vec<_>>(), [2, 2, 2]);
}
