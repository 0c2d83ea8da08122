//! Least privilege: the roles that `roles.sql` makes can do their work and nothing else.

use std::time::Duration;

use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{
    AcceptRequest, Accepted, Admin, Depth, Doctor, Effect, Entropy, Filter, InventoryRequest, Origin,
    Position, Presence, PurgeRequest, SagaAdmin, Schema, SchemaState, Severity, Store, Transactions, Verdict,
};
use pillarbox_core::{ErrorKind, Event, Fence, Reference, Saga, Step};
use pillarbox_host::OsEntropy;
use pillarbox_store_postgres::{Options, PostgresStore};
use sqlx::{AssertSqlSafe, PgConnection};

use crate::harness::{Direct, connect, server, unique};
use crate::steps::{ROUTE, claim, dead, events, settle_request, stage, verdicts};

const ROLES: &str = include_str!("../../roles.sql");
const NAMES: [&str; 4] = ["stage", "relay", "read", "admin"];

/// The shipped file with names of this test's own: roles belong to the whole server.
pub(crate) struct Roles {
    suffix: String,
}

impl Roles {
    pub(crate) async fn grant(harness: &Direct) -> Self {
        let roles = Self { suffix: unique("r") };
        harness.execute(&roles.script(harness)).await;
        roles
    }

    /// What is run, with users that can log in.
    fn script(&self, harness: &Direct) -> String {
        let mut sql = ROLES.replace("schema public", &format!("schema {}", harness.schema));
        sql = sql.replace("public.", &format!("{}.", harness.schema));
        sql = sql.replace("nologin'", "login password ''p'''");
        for role in NAMES {
            sql = sql.replace(&format!("'pillarbox_{role}'"), &format!("'{}'", self.name(role)));
            sql = sql.replace(&format!("to pillarbox_{role};"), &format!("to {};", self.name(role)));
        }
        sql
    }

    pub(crate) fn name(&self, role: &str) -> String {
        format!("{role}_{}", self.suffix)
    }

    pub(crate) async fn store(&self, role: &str, options: Options) -> PostgresStore {
        store_of(&self.name(role), options).await
    }

    /// What takes the tables and the roles away.
    pub(crate) fn end(&self) -> String {
        let names = NAMES.map(|role| self.name(role)).join(", ");
        format!("drop schema {{s}} cascade; create schema {{s}}; drop owned by {names}; drop role {names}")
    }

    async fn drop(self, harness: &Direct) {
        harness.execute(&self.end()).await;
    }
}

/// A store of a user with the password `p`.
async fn store_of(user: &str, options: Options) -> PostgresStore {
    let url = server();
    let (scheme, rest) = url.split_once("://").unwrap();
    let rest = rest.split_once('@').map_or(rest, |(_, rest)| rest);
    PostgresStore::connect(&format!("{scheme}://{user}:p@{rest}"), options).await.unwrap()
}

async fn refused(store: &PostgresStore, sql: AssertSqlSafe<String>) {
    let mut connection = store.pool().acquire().await.unwrap();
    let connection: &mut PgConnection = &mut connection;
    let text = sql.0.clone();
    let error = sqlx::raw_sql(sql).execute(connection).await.expect_err(&text);
    assert_eq!(error.as_database_error().unwrap().code().as_deref(), Some("42501"), "{text}: {error}");
}

#[tokio::test]
async fn the_doctor_tells_who_may_work_on_the_entries() {
    let harness = Direct::start().await;
    let roles = Roles::grant(&harness).await;
    for (role, expected) in
        [("relay", Severity::Ok), ("read", Severity::Problem), ("stage", Severity::Problem)]
    {
        let store = roles.store(role, harness.options.clone()).await;
        let found = store.examine(Depth::Start).await.unwrap();
        let rights = found.iter().find(|finding| finding.check == "rights").unwrap();
        assert_eq!(rights.severity, expected, "{role}: {rights:?}");
        store.pool().close().await;
    }
    roles.drop(&harness).await;
}

#[tokio::test]
async fn the_stage_role_stages_and_can_do_nothing_else() {
    let harness = Direct::start().await;
    let roles = Roles::grant(&harness).await;
    let store = roles.store("stage", harness.options.clone()).await;
    let outbox = harness.outbox(ROUTE);
    stage(&outbox, store.pool(), events(3)).await;
    let mut tx = store.pool().begin().await.unwrap();
    let one = outbox.stage(&mut tx, Event::new("t", b"{}".to_vec())).await.unwrap();
    assert!(outbox.stage(&mut tx, Event::new("t", vec![]).id(one.event_id())).await.unwrap().is_duplicate());
    outbox.serialize(&mut tx, "k").await.unwrap();
    for sql in [
        "insert into {s}.pillarbox_outbox (route, type, payload) values ('orders', 't', '{}')",
        "select {s}.pillarbox_stage('orders', 't', '{}'::jsonb)",
    ] {
        sqlx::raw_sql(harness.sql(sql)).execute(&mut *tx).await.unwrap();
    }
    let saga = Saga::group("erase", Reference::new("person", "p-1")).step(Step::new("crm", "crm.erase"));
    for _ in 0..2 {
        outbox.stage_saga(&mut tx, saga.clone().build().unwrap()).await.unwrap();
    }
    outbox.commit(tx).await.unwrap();
    assert_eq!(harness.number("select count(*) from {s}.pillarbox_outbox").await, 8);
    for sql in [
        "select payload from {s}.pillarbox_outbox",
        "update {s}.pillarbox_outbox set status = 'delivered'",
        "delete from {s}.pillarbox_outbox",
        "truncate {s}.pillarbox_outbox",
        "select * from {s}.pillarbox_audit",
        "create table {s}.mine (id int)",
    ] {
        refused(&store, harness.sql(sql)).await;
    }
    assert_eq!(store.claim(crate::steps::claim_request(1)).await.unwrap_err().kind(), ErrorKind::Denied);
    store.close().await;
    roles.drop(&harness).await;
}

#[tokio::test]
async fn the_stage_role_consumes_and_can_forget_nothing() {
    let harness = Direct::start().await;
    let roles = Roles::grant(&harness).await;
    let store = roles.store("stage", harness.options.clone()).await;
    let inbox = store.inbox();
    let (event_id, later) = (OsEntropy.event_id(), OsEntropy.event_id());
    let from = |fence, offset| {
        let position = Position { stream: "s".into(), offset };
        Some(Origin { lane: "shop orders/3".into(), fence: Fence(fence), position })
    };
    for (event_id, origin, wanted) in [
        (event_id, None, Accepted::Fresh),
        (event_id, from(6, 1), Accepted::Duplicate),
        (event_id, from(7, 2), Accepted::Duplicate),
        (later, from(6, 3), Accepted::Stale),
    ] {
        let mut tx = inbox.begin().await.unwrap();
        let request = AcceptRequest::new("billing", event_id).origin(origin);
        assert_eq!(inbox.accept(&mut tx, request).await.unwrap(), wanted);
        inbox.commit(tx).await.unwrap();
    }
    for sql in [
        "delete from {s}.pillarbox_inbox",
        "update {s}.pillarbox_inbox set consumer = 'nobody'",
        "delete from {s}.pillarbox_inbox_fence",
    ] {
        refused(&store, harness.sql(sql)).await;
    }
    store.close().await;
    roles.drop(&harness).await;
}

#[tokio::test]
async fn insert_alone_is_enough_for_a_plain_insert() {
    let harness = Direct::start().await;
    let role = unique("only_insert");
    harness
        .execute(&format!(
            "create role {role}; grant usage on schema {{s}} to {role}; grant insert on {{s}}.pillarbox_outbox to {role}"
        ))
        .await;
    let mut connection = connect().await;
    let insert = format!(
        "set role {role}; insert into {{s}}.pillarbox_outbox (route, type, payload) values ('orders', 't', '{{}}')"
    );
    sqlx::raw_sql(harness.sql(&insert)).execute(&mut connection).await.unwrap();
    assert_eq!(claim(&harness.store(), 10).await.len(), 1);
    harness.execute(&format!("drop owned by {role}; drop role {role}")).await;
}

#[tokio::test]
async fn the_relay_role_relays_and_cannot_rewrite_the_audit_trail() {
    let harness = Direct::start().await;
    let roles = Roles::grant(&harness).await;
    let store = roles.store("relay", harness.options.clone()).await;
    stage(&harness.outbox(ROUTE), harness.store().pool(), events(3)).await;
    store.inspect().await.unwrap().check().unwrap();
    let held = claim(&store, 10).await;
    assert_eq!(
        store.settle(settle_request(verdicts(&held[..1], &Verdict::Delivered))).await.unwrap().accepted,
        1
    );
    assert_eq!(store.settle(settle_request(verdicts(&held[1..], &dead()))).await.unwrap().accepted, 2);
    assert_eq!(store.list(Filter::dead()).await.unwrap().len(), 2);
    assert_eq!(store.audit(10).await.unwrap().len(), 2);
    assert_eq!(store.counts(None).await.unwrap().len(), 1);
    for sql in [
        "update {s}.pillarbox_audit set actor = 'nobody'",
        "delete from {s}.pillarbox_audit",
        "drop table {s}.pillarbox_outbox",
        "alter table {s}.pillarbox_outbox add column mine int",
        "create table {s}.mine (id int)",
        "insert into {s}.pillarbox_schema (version) values (9)",
    ] {
        refused(&store, harness.sql(sql)).await;
    }
    store.close().await;
    roles.drop(&harness).await;
}

#[tokio::test]
async fn the_relay_role_forgets_what_is_old() {
    let harness = Direct::start().await;
    let roles = Roles::grant(&harness).await;
    let store = roles.store("relay", harness.options.clone()).await;
    stage(&harness.outbox(ROUTE), harness.store().pool(), events(2)).await;
    let held = claim(&store, 10).await;
    assert_eq!(store.settle(settle_request(verdicts(&held, &Verdict::Delivered))).await.unwrap().accepted, 2);
    harness
        .execute(
            "insert into {s}.pillarbox_inbox (consumer, event_id) values ('billing', gen_random_uuid()); \
             insert into {s}.pillarbox_inbox_fence (consumer, lane, fence, stream, position) \
             values ('billing', 'orders/3', 1, 's', 1); \
             insert into {s}.pillarbox_saga (id, name, route, subject_kind, subject_value, generation, status, body, ended_at) \
             values ('s-1', 'erase', 'orders', 'person', 'p-1', 1, 'completed', '{}', now())",
        )
        .await;
    let request = || PurgeRequest {
        older_than: Duration::ZERO,
        limit: 10,
        actor: "retention".into(),
        effect: Effect::Apply,
        now: None,
    };
    assert_eq!(store.purge(request()).await.unwrap().purged, 2);
    assert_eq!(store.purge_inbox(request()).await.unwrap().purged, 1);
    assert_eq!(store.purge_sagas(request()).await.unwrap().purged, 1);
    assert_eq!(harness.number("select count(*) from {s}.pillarbox_inbox_fence").await, 0);
    refused(&store, harness.sql("update {s}.pillarbox_inbox set consumer = 'nobody'")).await;
    store.close().await;
    roles.drop(&harness).await;
}

#[tokio::test]
async fn the_read_role_sees_everything_and_changes_nothing() {
    let harness = Direct::start().await;
    let roles = Roles::grant(&harness).await;
    stage(&harness.outbox(ROUTE), harness.store().pool(), events(3)).await;
    let held = claim(&harness.store(), 1).await;
    assert_eq!(harness.store().settle(settle_request(verdicts(&held, &dead()))).await.unwrap().accepted, 1);
    let store = roles.store("read", harness.options.clone()).await;
    assert_eq!(store.inspect().await.unwrap(), SchemaState::Ready { warnings: vec![] });
    assert_eq!(store.counts(None).await.unwrap().len(), 1);
    assert_eq!(store.list(Filter::dead()).await.unwrap().len(), 1);
    assert_eq!(store.show(held[0].event_id).await.unwrap()[0].audit.len(), 1);
    assert_eq!(store.audit(10).await.unwrap().len(), 1);
    assert_eq!(store.inventory(InventoryRequest { after: 0, limit: 10 }).await.unwrap().len(), 3);
    assert!(store.relays(None).await.unwrap().is_empty());
    assert_eq!(store.saga_counts(None).await.unwrap().stuck(), 0);
    for sql in [
        "update {s}.pillarbox_outbox set status = 'delivered'",
        "delete from {s}.pillarbox_outbox",
        "insert into {s}.pillarbox_outbox (route, type, payload) values ('orders', 't', '{}')",
        "insert into {s}.pillarbox_audit (kind, actor) values ('dead', 'nobody')",
        "select from {s}.pillarbox_outbox for update",
        "truncate {s}.pillarbox_lane_session",
        "create table {s}.mine (id int)",
    ] {
        refused(&store, harness.sql(sql)).await;
    }
    assert_eq!(store.claim(crate::steps::claim_request(1)).await.unwrap_err().kind(), ErrorKind::Denied);
    store.close().await;
    roles.drop(&harness).await;
}

#[tokio::test]
async fn the_roles_can_be_made_again() {
    let harness = Direct::start().await;
    let roles = Roles::grant(&harness).await;
    harness.execute(&roles.script(&harness)).await;
    roles.drop(&harness).await;
}

#[tokio::test]
async fn a_role_that_cannot_migrate_is_told_what_it_lacks_and_nothing_is_changed() {
    let harness = Direct::start().await;
    let roles = Roles::grant(&harness).await;
    // Migrated before the roles were made; not any more.
    let deploy = unique("deploy");
    harness
        .execute(&format!(
            "create role {deploy} login password 'p'; grant usage, create on schema {{s}} to {deploy}; \
             grant select on {{s}}.pillarbox_schema to {deploy}"
        ))
        .await;
    let store = store_of(&deploy, harness.options.clone()).await;
    assert_eq!(store.migrate().await.unwrap().to, 1, "there is nothing to do");
    harness.execute("drop index {s}.pillarbox_outbox_open").await;
    let error = store.migrate().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    let admin = roles.name("admin");
    for says in [format!("`grant {admin} to {deploy}`"), format!("belong to {admin};"), "--plan".into()] {
        assert!(error.to_string().contains(&says), "{says}: {error}");
    }
    harness.execute(&format!("grant {admin} to {deploy}")).await;
    assert_eq!(store.migrate().await.unwrap().to, 1);
    store.close().await;

    let empty = Direct::unmigrated(Direct::fresh()).await;
    let store = store_of(&deploy, empty.options.clone()).await;
    let error = store.migrate().await.unwrap_err().to_string();
    assert!(error.contains("does not exist") && error.contains("create schema"), "{error}");
    empty.execute("create schema {s}").await;
    let error = store.migrate().await.unwrap_err().to_string();
    assert!(error.contains("grant usage, create on schema"), "{error}");
    store.close().await;
    roles.drop(&harness).await;
    harness.execute(&format!("drop owned by {deploy}; drop role {deploy}")).await;
}

#[tokio::test]
async fn the_admin_role_migrates() {
    let harness = Direct::start().await;
    let roles = Roles::grant(&harness).await;
    harness.execute("drop index {s}.pillarbox_outbox_open").await;
    let store = roles.store("admin", harness.options.clone()).await;
    assert_eq!(store.migrate().await.unwrap().to, 1);
    assert_eq!(
        harness.store().inspect().await.unwrap(),
        pillarbox_core::port::SchemaState::Ready { warnings: vec![] }
    );
    store.close().await;
    roles.drop(&harness).await;
}
