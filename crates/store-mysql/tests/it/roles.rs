//! `roles.sql`: what each kind of user may do, and no more.

use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{AcceptRequest, Accepted, Admin, Filter, Store, Verdict};
use pillarbox_core::{ErrorKind, Reference, Saga, Step};
use pillarbox_store_mysql::{MySqlStore, Options};
use sqlx::AssertSqlSafe;

use crate::harness::{MySqlHarness, unique};
use crate::steps::{ROUTE, dead, event, settling, stage, wish};

const SCRIPT: &str = include_str!("../../roles.sql");

/// A user with one of the roles of the script. Both are gone at the end.
struct Member {
    user: String,
    roles: [(&'static str, String); 2],
}

impl Member {
    async fn of(harness: &MySqlHarness, role: &str) -> (Self, MySqlStore) {
        let roles = ["pillarbox_stage", "pillarbox_relay"].map(|name| (name, unique("r")));
        // Roles belong to the server, and tables may be called like one: only what is granted to is a role.
        let mut script = SCRIPT.to_owned();
        for (name, own) in &roles {
            script = script.replace(&format!("to {name};"), &format!("to {own};"));
        }
        let script = script.replace(
            "create role if not exists pillarbox_stage, pillarbox_relay;",
            &format!("create role if not exists {}, {};", roles[0].1, roles[1].1),
        );
        let database = &harness.database;
        database.execute(&script).await;
        // The script can be run again.
        database.execute(&script).await;
        let user = unique("u")[..18].to_owned();
        let role = &roles.iter().find(|(name, _)| *name == role).unwrap().1;
        let to = if is_mariadb(harness).await { "for" } else { "to" };
        database
            .execute(&format!(
                "create user {user}@'%' identified by ''; grant {role} to {user}@'%'; \
                 set default role {role} {to} {user}@'%'"
            ))
            .await;
        let store = MySqlStore::connect(&database.url_as(&user), Options::default()).await.unwrap();
        (Self { user, roles }, store)
    }

    async fn gone(self, harness: &MySqlHarness) {
        harness.database.execute(&format!("drop user {}@'%'", self.user)).await;
        for (_, own) in &self.roles {
            harness.database.execute(&format!("drop role {own}")).await;
        }
    }
}

async fn is_mariadb(harness: &MySqlHarness) -> bool {
    harness.database.number("select version() like '%MariaDB%'").await == 1
}

async fn refused(store: &MySqlStore, sql: &str) {
    let error = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(store.pool()).await.unwrap_err();
    assert!(error.to_string().contains("denied"), "{sql}: {error}");
}

#[tokio::test]
async fn the_stage_role_stages_and_consumes_and_can_do_nothing_else() {
    let harness = MySqlHarness::start().await;
    let (member, store) = Member::of(&harness, "pillarbox_stage").await;
    let (outbox, inbox) = (harness.outbox(ROUTE), store.inbox());
    let mut tx = store.begin().await.unwrap();
    let staged = outbox.stage(&mut tx, event(1)).await.unwrap();
    let again = outbox.stage(&mut tx, event(1).id(staged.event_id())).await.unwrap();
    assert!(!staged.is_duplicate() && again.is_duplicate());
    let many = [event(2), event(3).id(staged.event_id())];
    let many = outbox.stage_all(&mut tx, many).await.unwrap();
    assert_eq!(many.iter().filter(|staged| staged.is_duplicate()).count(), 1);
    outbox.serialize(&mut tx, "k").await.unwrap();
    let saga = Saga::group("erase", Reference::new("user", "u-7")).step(Step::new("mail", "mail.erase"));
    let _ = outbox.stage_saga(&mut tx, saga.build().unwrap()).await.unwrap();
    let request = || AcceptRequest::new("billing", staged.event_id());
    assert_eq!(inbox.accept(&mut tx, request()).await.unwrap(), Accepted::Fresh);
    assert_eq!(inbox.accept(&mut tx, request()).await.unwrap(), Accepted::Duplicate);
    outbox.commit(tx).await.unwrap();
    for sql in [
        "select payload_bytes from pillarbox_outbox",
        "update pillarbox_outbox set status = 'delivered'",
        "delete from pillarbox_outbox",
        "select * from pillarbox_audit",
        "delete from pillarbox_inbox",
        "update pillarbox_saga set status = 'completed'",
    ] {
        refused(&store, sql).await;
    }
    assert_eq!(store.claim(wish(1)).await.unwrap_err().kind(), ErrorKind::Denied);
    store.close().await;
    member.gone(&harness).await;
}

#[tokio::test]
async fn the_relay_role_relays_and_cannot_rewrite_the_audit_trail() {
    let harness = MySqlHarness::start().await;
    let (member, store) = Member::of(&harness, "pillarbox_relay").await;
    stage(&harness, 2).await;
    let held = store.claim(wish(2)).await.unwrap().entries;
    assert_eq!(held.len(), 2);
    assert_eq!(store.settle(settling(&held[..1], &Verdict::Delivered)).await.unwrap().accepted, 1);
    assert_eq!(store.settle(settling(&held[1..], &dead())).await.unwrap().accepted, 1);
    assert_eq!(store.list(Filter::default()).await.unwrap().len(), 2);
    assert!(!store.audit(10).await.unwrap().is_empty(), "the dead one is on record");
    for sql in [
        "update pillarbox_audit set actor = 'nobody'",
        "delete from pillarbox_audit",
        "drop table pillarbox_outbox",
        "insert into pillarbox_schema (version) values (9)",
    ] {
        refused(&store, sql).await;
    }
    store.close().await;
    member.gone(&harness).await;
}
