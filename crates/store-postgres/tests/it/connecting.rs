//! Connections: found out, lost, refused.

use std::time::Duration;

use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{Admin, Depth, Doctor, ExtendRequest, Filter, Schema, Severity, Store, Verdict};
use pillarbox_core::{ErrorKind, Retry};
use pillarbox_store_postgres::{Mode, Options, PostgresStore};
use sqlx::postgres::PgPoolOptions;

use crate::harness::{Direct, Pooled, pooler, server, unique};
use crate::steps::{ROUTE, claim, claim_request, events, reap_request, settle_request, stage, verdicts};

#[tokio::test]
async fn a_pooler_is_noticed_and_a_server_is_not_taken_for_one() {
    for _ in 0..5 {
        assert_eq!(PostgresStore::connect(&server(), Options::default()).await.unwrap().mode(), Mode::Direct);
        assert_eq!(PostgresStore::connect(&pooler(), Options::default()).await.unwrap().mode(), Mode::Pooled);
    }
}

#[tokio::test]
async fn the_mode_can_be_set_instead_of_found_out() {
    let store = PostgresStore::connect(&server(), Options::default().mode(Mode::Pooled)).await.unwrap();
    assert_eq!((store.mode(), store.options().mode), (Mode::Pooled, Some(Mode::Pooled)));
}

#[tokio::test]
async fn a_store_on_a_given_pool_is_careful_and_works_both_ways() {
    for (harness_url, mode) in [(server(), None), (server(), Some(Mode::Direct)), (pooler(), None)] {
        let harness = Pooled::start().await;
        let url: sqlx::postgres::PgConnectOptions = harness_url.parse().unwrap();
        let pool =
            PgPoolOptions::new().max_connections(3).connect_with(url.extra_float_digits(None)).await.unwrap();
        let mut options = harness.options.clone();
        options.mode = mode;
        let store = PostgresStore::new(pool, options).unwrap();
        assert_eq!(store.mode(), mode.unwrap_or(Mode::Pooled));
        let outbox = harness.outbox(ROUTE).options(store.options().clone());
        stage(&outbox, store.pool(), events(3)).await;
        let held = claim(&store, 10).await;
        assert_eq!(
            store.settle(settle_request(verdicts(&held, &Verdict::Delivered))).await.unwrap().accepted,
            3
        );
    }
}

#[tokio::test]
async fn connections_that_the_server_ends_are_replaced_without_a_word() {
    let name = unique("app");
    let harness = Direct::start().await;
    let url = format!("{}?application_name={name}", server());
    let store = PostgresStore::connect(&url, harness.options.clone()).await.unwrap();
    stage(&harness.outbox(ROUTE), store.pool(), events(6)).await;
    let end_all = || async {
        let ended = harness
            .rows(&format!(
                "select pg_terminate_backend(pid) from pg_stat_activity where application_name = '{name}'"
            ))
            .await;
        assert!(!ended.is_empty(), "there was nothing to end");
        let left = format!("select count(*) from pg_stat_activity where application_name = '{name}'");
        while harness.number(&left).await > 0 {
            tokio::task::yield_now().await;
        }
    };
    // Several connections in both pools, so that more than one of them is broken.
    let (_, _, _) = tokio::join!(store.counts(None), store.audit(1), store.list(Filter::default()));
    let held = claim(&store, 2).await;
    end_all().await;
    let more = claim(&store, 2).await;
    assert_eq!(more.len(), 2);
    let extend = || ExtendRequest {
        held: held.iter().map(|entry| entry.held()).collect(),
        lease: Duration::from_secs(60),
        now: None,
    };
    assert!(store.extend(extend()).await.unwrap().fenced.is_empty());
    end_all().await;
    assert!(store.extend(extend()).await.unwrap().fenced.is_empty());
    end_all().await;
    let settled = store.settle(settle_request(verdicts(&held, &Verdict::Delivered))).await.unwrap();
    assert_eq!((settled.accepted, settled.fenced.len()), (2, 0));
    assert_eq!(store.list(Filter::default()).await.unwrap().len(), 6);
    end_all().await;
    assert_eq!(store.reap(reap_request()).await.unwrap().stale, 0);
    assert_eq!(store.counts(None).await.unwrap().len(), 1);
    assert_eq!(harness.number("select max(attempts)::bigint from {s}.pillarbox_outbox").await, 1);
}

#[tokio::test]
async fn a_server_that_takes_no_writes_is_read_only_and_worth_waiting_for() {
    let harness = Direct::start().await;
    stage(&harness.outbox(ROUTE), harness.store().pool(), events(1)).await;
    let url = format!("{}?options[default_transaction_read_only]=on", server());
    let store = PostgresStore::connect(&url, harness.options.clone()).await.unwrap();
    let error = store.claim(claim_request(1)).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.retry(), error.code()),
        (ErrorKind::ReadOnly, Retry::Later, Some("25006"))
    );
    assert_eq!(store.list(Filter::default()).await.unwrap().len(), 1, "reading goes on");
    let server = async |store: &PostgresStore| {
        let found = store.examine(Depth::Start).await.unwrap();
        found.into_iter().find(|finding| finding.check == "server").expect("the doctor does not tell")
    };
    let finding = server(&store).await;
    assert!(finding.severity == Severity::Problem && finding.reason.contains("read-only"), "{finding:?}");
    assert_eq!(server(&harness.store()).await.severity, Severity::Ok);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_at_once() {
    let error =
        PostgresStore::connect("postgres://u:canary@127.0.0.1:1/db", Options::default()).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, Retry::Later));
    assert!(!format!("{error} {error:?}").contains("canary"));
    let url = server();
    let absent = format!("{}/no_such_database", url.rsplit_once('/').unwrap().0);
    let error = PostgresStore::connect(&absent, Options::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

#[tokio::test]
async fn plain_text_to_another_machine_is_refused_before_anything_is_sent() {
    let url = "postgres://u:canary@db.example.org/db?sslmode=prefer";
    let error = PostgresStore::connect(url, Options::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("insecure") && !error.to_string().contains("canary"));
}

#[tokio::test]
async fn a_server_without_encryption_is_not_used_where_encryption_is_asked_for() {
    let separator = if server().contains('?') { '&' } else { '?' };
    let url = format!("{}{separator}sslmode=require", server());
    let error = PostgresStore::connect(&url, Options::default()).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Denied, Retry::Never), "{error}");
}

#[tokio::test]
async fn a_closed_store_says_so() {
    let harness = Direct::start().await;
    let store = harness.another().await;
    store.close().await;
    let error = store.inspect().await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, Retry::Never));
}

#[tokio::test]
async fn nothing_of_a_store_prints_its_password() {
    let url = server();
    let (scheme, rest) = url.split_once("://").unwrap();
    let (user, host) = rest.rsplit_once('@').unwrap();
    let user = user.split(':').next().unwrap();
    let url = format!("{scheme}://{user}:canary@{host}");
    let store = PostgresStore::connect(&url, Options::default()).await.unwrap();
    assert!(!format!("{store:?}").contains("canary"));
}
