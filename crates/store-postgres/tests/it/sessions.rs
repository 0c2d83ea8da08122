//! The tables of lane sessions are unlogged: whatever a crash or a failover makes of them, ordered routes go on.

use std::time::Duration;

use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{Admin, AttendRequest, Attendance, LANES, Lanes, Schema, SchemaState, SessionId};
use pillarbox_store_postgres::PostgresStore;

use crate::harness::Direct;
use crate::steps::{ROUTE, events, route, stage};

/// A file number that no table has.
const NOWHERE: u32 = 4_000_000_000;

async fn attend(store: &PostgresStore, number: u64, joins: bool, shares: u8) -> Attendance {
    let request = AttendRequest {
        route: route(),
        session: SessionId::of_random(9, number),
        joins,
        owner: format!("worker-{number}"),
        lease: Duration::from_secs(60),
        shares,
        max_attempts: 5,
        skips_dead: false,
        now: None,
    };
    store.attend(request).await.unwrap()
}

/// Ways in which a table or an index of sessions can be without its contents.
#[derive(Clone, Copy)]
enum Damage {
    /// The file is not there.
    NoFile(&'static str),
    /// It has a page of zeros, as a promoted standby may find it.
    ZeroPage(&'static str),
}

const DAMAGES: [Damage; 6] = [
    Damage::NoFile("lane_session"),
    Damage::NoFile("lane_session_pkey"),
    Damage::NoFile("lane_handed_pkey"),
    Damage::ZeroPage("lane_session_pkey"),
    Damage::ZeroPage("lane_handed_pkey"),
    Damage::NoFile("lane_handed"),
];

async fn damage(harness: &Direct, damage: Damage) {
    let (relation, file) = match damage {
        Damage::NoFile(relation) => (relation, NOWHERE.to_string()),
        Damage::ZeroPage(relation) => {
            let file = pillarbox_host::random_u64() % 1_000_000_000 + 3_000_000_000;
            let text = "select lo_from_bytea({file}, decode(repeat('00', 8192), 'hex')); \
                select lo_export({file}, 'base/' || (select oid from pg_database where datname = current_database()) || '/{file}'); \
                select lo_unlink({file})";
            harness.execute(&text.replace("{file}", &file.to_string())).await;
            (relation, file.to_string())
        }
    };
    let text = "update pg_class set relfilenode = {file} where oid = '{s}.pillarbox_{relation}'::regclass";
    harness.execute(&text.replace("{file}", &file).replace("{relation}", relation)).await;
}

#[tokio::test]
async fn nothing_of_lane_sessions_hangs_on_a_sequence() {
    let harness = Direct::start().await;
    let drawn = "select count(*) from pg_depend as d join pg_class as s on s.oid = d.objid and s.relkind = 'S' \
        where d.refobjid in ('{s}.pillarbox_lane_session'::regclass, '{s}.pillarbox_lane_handed'::regclass)";
    assert_eq!(harness.number(drawn).await, 0);
}

#[tokio::test]
async fn the_oldest_sessions_come_first_also_when_one_of_them_leaves() {
    let harness = Direct::start().await;
    let store = harness.store();
    for number in 1..=3 {
        let _ = attend(&store, number, true, 2).await;
    }
    let ranks = "select array_agg(owner order by rank)::text = '{worker-1,worker-2,worker-3}' and \
        count(distinct rank) = 3 from {s}.pillarbox_lane_session";
    assert!(sqlx::Row::get::<bool, _>(&harness.rows(ranks).await[0], 0));
    let leave = pillarbox_core::port::HandOverRequest {
        route: route(),
        session: SessionId::of_random(9, 3),
        lanes: None,
    };
    store.hand_over(leave).await.unwrap();
    let _ = attend(&store, 4, true, 2).await;
    let ranks = "select array_agg(owner order by rank)::text = '{worker-1,worker-2,worker-4}' from {s}.pillarbox_lane_session";
    assert!(sqlx::Row::get::<bool, _>(&harness.rows(ranks).await[0], 0));
}

#[tokio::test]
async fn a_relay_mends_a_damaged_session_table_and_goes_on() {
    for harm in DAMAGES {
        let harness = Direct::start().await;
        assert_eq!(attend(&harness.store(), 1, true, LANES).await.lanes.len(), usize::from(LANES));
        damage(&harness, harm).await;
        let after = harness.another().await;
        let attendance = attend(&after, 2, true, LANES).await;
        assert_eq!(
            attendance.lanes.len(),
            usize::from(LANES),
            "the lanes of sessions that are gone are free"
        );
        assert!(attend(&harness.store(), 1, false, LANES).await.lost, "who was there before joins anew");
        assert_eq!(harness.store().inspect().await.unwrap(), SchemaState::Ready { warnings: vec![] });
        after.close().await;
    }
}

#[tokio::test]
async fn a_damaged_session_table_is_told_of_and_migrate_mends_it() {
    for harm in DAMAGES {
        let harness = Direct::start().await;
        let store = harness.store();
        stage(&harness.outbox(ROUTE), store.pool(), events(2)).await;
        let _ = attend(&store, 1, true, LANES).await;
        damage(&harness, harm).await;
        let SchemaState::Ready { warnings } = store.inspect().await.unwrap() else { panic!("not ready") };
        assert!(
            warnings.len() == 1 && warnings[0].contains("lane sessions") && warnings[0].contains("migrate"),
            "{warnings:?}"
        );
        assert!(store.plan().await.unwrap().contains("truncate"), "the plan is what mends it");
        assert_eq!(store.counts(None).await.unwrap().len(), 1, "counting works all the same");
        let migrated = store.migrate().await.unwrap();
        assert_eq!((migrated.from, migrated.to), (1, 1));
        assert_eq!(store.inspect().await.unwrap(), SchemaState::Ready { warnings: vec![] });
        assert_eq!(store.plan().await.unwrap(), "");
    }
}

#[tokio::test]
async fn a_session_table_that_is_sound_is_never_emptied() {
    let harness = Direct::start().await;
    let store = harness.store();
    let _ = attend(&store, 1, true, LANES).await;
    let _ = store.migrate().await.unwrap();
    assert!(!attend(&store, 1, false, LANES).await.lost);
}
