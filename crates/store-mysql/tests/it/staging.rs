//! Staging in connections of the application, however these are set.

use pillarbox_conformance::StoreHarness;
use pillarbox_core::port::{AcceptRequest, Accepted, Admin, Filter, Origin, Position};
use pillarbox_core::{ErrorKind, Event, EventId, EventLimits, Fence, Reference, Saga, Step};
use pillarbox_store_mysql::Param;
use sqlx::{Connection, Row};
use tokio::task::JoinSet;

use crate::harness::MySqlHarness;
use crate::steps::{ROUTE, claim, event};

/// What the library leaves of `max_allowed_packet` for everything around a payload.
const AROUND: usize = 300 * 1024;

/// In the mode ORACLE, `BEGIN` is the beginning of a block.
const BEGIN: &str = "START TRANSACTION";

/// SQL modes of an application's connections, and those that only MariaDB has.
const MODES: [&str; 6] = [
    "",
    "ANSI_QUOTES",
    "ANSI,NO_BACKSLASH_ESCAPES",
    "TRADITIONAL",
    "ONLY_FULL_GROUP_BY,STRICT_ALL_TABLES",
    "HIGH_NOT_PRECEDENCE,PAD_CHAR_TO_FULL_LENGTH,REAL_AS_FLOAT",
];
const OF_MARIADB: [&str; 3] = ["ORACLE", "EMPTY_STRING_IS_NULL", "SIMULTANEOUS_ASSIGNMENT,MSSQL"];

async fn modes(harness: &MySqlHarness) -> Vec<&'static str> {
    let version: String = harness.database.rows("select version()").await[0].get_unchecked(0);
    let own = if version.contains("MariaDB") { &OF_MARIADB[..] } else { &[] };
    [&MODES[..], own].concat()
}

#[tokio::test]
async fn staging_works_in_every_sql_mode_isolation_level_and_character_set() {
    let harness = MySqlHarness::start().await;
    let outbox = harness.outbox(ROUTE);
    let mut expected = 0;
    for mode in modes(&harness).await {
        for level in ["read uncommitted", "read committed", "repeatable read", "serializable"] {
            for names in ["utf8mb4", "latin1"] {
                let mut connection = harness.database.connect().await;
                let set = format!(
                    "set names {names}; set session sql_mode = '{mode}'; \
                     set session transaction isolation level {level}"
                );
                sqlx::raw_sql(sqlx::AssertSqlSafe(set)).execute(&mut connection).await.unwrap();
                let key = format!("Zoë ☃ {expected}");
                let one = Event::new("täg", "π").key(&key).header("h", "ü☃");
                let two = || Event::new("zwei", "☃").key(&key);
                let mut tx = connection.begin_with(BEGIN).await.unwrap();
                let _ = outbox.stage(&mut tx, one).await.unwrap();
                let staged = outbox.stage_all(&mut tx, [two(), two()]).await.unwrap();
                assert!(staged.iter().all(|staged| !staged.is_duplicate()));
                outbox.commit(tx).await.unwrap();
                expected += 3;
            }
        }
    }
    let mut all = Filter::default();
    all.limit = 1000;
    let entries = harness.store().list(all).await.unwrap();
    assert_eq!(entries.len(), expected);
    for (index, three) in entries.chunks(3).enumerate() {
        let key = format!("Zoë ☃ {}", index * 3);
        assert!(three.iter().all(|entry| entry.key.as_deref() == Some(&*key)), "{key}");
        assert_eq!((three[0].event_type.as_str(), &three[0].payload[..]), ("täg", "π".as_bytes()));
        assert_eq!(three[0].headers["h"], "ü☃");
        assert_eq!(three[1].payload, "☃".as_bytes());
    }
}

#[tokio::test]
async fn accepting_sagas_and_locks_of_keys_work_in_every_sql_mode() {
    let harness = MySqlHarness::start().await;
    let (outbox, inbox, modes) = (harness.outbox(ROUTE), harness.inbox(), modes(&harness).await);
    for (number, mode) in (1..).zip(&modes) {
        let mut connection = harness.database.connect().await;
        let set = format!("set session sql_mode = '{mode}'");
        sqlx::raw_sql(sqlx::AssertSqlSafe(set)).execute(&mut connection).await.unwrap();
        let mut tx = connection.begin_with(BEGIN).await.unwrap();
        outbox.serialize(&mut tx, "Zoë \\ \"☃\"").await.unwrap();
        // Nothing is also a payload, and the name of a stream.
        let _ = outbox.stage(&mut tx, Event::new("t", "").key("k")).await.unwrap();
        let _ = outbox.stage_all(&mut tx, [Event::new("t", ""), Event::new("t", "")]).await.unwrap();
        let position = Position { stream: String::new(), offset: number };
        let origin = Origin { lane: "shop orders/3".into(), fence: Fence(number), position };
        let id = EventId(uuid::Uuid::now_v7());
        let request = || AcceptRequest::new("billing", id).origin(Some(origin.clone()));
        for wanted in [Accepted::Fresh, Accepted::Duplicate] {
            assert_eq!(inbox.accept(&mut tx, request()).await.unwrap(), wanted, "{mode:?}");
        }
        let saga =
            || Saga::group("erase", Reference::new("user", "Zoë ☃")).step(Step::new("mail", "mail.erase"));
        let _ = outbox.stage_saga(&mut tx, saga().build().unwrap()).await.unwrap();
        outbox.commit(tx).await.unwrap();
        let generation = "select max(generation) from pillarbox_saga";
        assert_eq!(harness.database.number(generation).await, number, "{mode:?}");
    }
    let entries = claim(&harness.store(), 100).await;
    assert_eq!(entries.len(), 3 * modes.len());
    assert!(entries.iter().all(|entry| entry.payload.is_empty()));
}

#[tokio::test]
async fn more_than_the_server_takes_is_refused_before_anything_is_written() {
    let harness = MySqlHarness::start().await;
    let most = harness.database.number("select @@max_allowed_packet").await;
    let bytes = usize::try_from(most).unwrap();
    let mut limits = EventLimits::default();
    limits.payload_bytes = bytes + 1;
    let outbox = harness.outbox(ROUTE).limits(limits);
    let mut tx = harness.begin().await;
    let _ = outbox.stage(&mut tx, event(1)).await.unwrap();
    let error = outbox.stage(&mut tx, Event::new("t", vec![b'x'; bytes])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    let halves = [(); 2].map(|()| Event::new("t", vec![b'x'; bytes / 2 + 1]));
    let error = outbox.stage_all(&mut tx, halves).await.unwrap_err();
    assert!(error.to_string().contains("max_allowed_packet"), "{error}");
    // The transaction is as good as before.
    outbox.commit(tx).await.unwrap();
    assert_eq!(harness.database.number("select count(*) from pillarbox_outbox").await, 1);
}

/// The largest payload that the library lets through passes the server too, on its way in and on its way out.
#[tokio::test]
async fn just_less_than_the_server_takes_is_staged_and_claimed() {
    let harness = MySqlHarness::start().await;
    let most = harness.database.number("select @@max_allowed_packet").await;
    let bytes = usize::try_from(most).unwrap() - AROUND;
    let mut limits = EventLimits::default();
    limits.payload_bytes = bytes + 1;
    let outbox = harness.outbox(ROUTE).limits(limits);
    let large = |bytes| Event::new("t", vec![b'x'; bytes]);
    let mut tx = harness.begin().await;
    let error = outbox.stage(&mut tx, large(bytes + 1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    let _ = outbox.stage(&mut tx, large(bytes)).await.unwrap();
    outbox.commit(tx).await.unwrap();
    let store = harness.store();
    let claimed = claim(&store, 10).await;
    assert_eq!(claimed.iter().map(|entry| entry.payload.len()).collect::<Vec<_>>(), [bytes]);
    // And as a batch.
    let halves = [bytes / 2 - AROUND, bytes / 2 - AROUND];
    let mut tx = harness.begin().await;
    let _ = outbox.stage_all(&mut tx, halves.map(large)).await.unwrap();
    outbox.commit(tx).await.unwrap();
    let claimed = claim(&store, 10).await;
    assert_eq!(claimed.iter().map(|entry| entry.payload.len()).collect::<Vec<_>>(), halves);
}

#[tokio::test]
async fn a_statement_stages_with_any_driver_and_once() {
    let harness = MySqlHarness::start().await;
    let statement = harness.outbox(ROUTE).statement(event(7).key("k")).unwrap();
    let mut connection = harness.database.connect().await;
    for _ in 0..2 {
        let mut query = sqlx::query(sqlx::AssertSqlSafe(statement.sql.clone()));
        for param in statement.params.clone() {
            query = match param {
                Param::Null => query.bind(None::<i64>),
                Param::Text(text) => query.bind(text),
                Param::Integer(number) => query.bind(number),
                Param::Bytes(bytes) => query.bind(bytes),
                other => panic!("{other:?}"),
            };
        }
        query.execute(&mut connection).await.unwrap();
    }
    let entries = claim(&harness.store(), 10).await;
    assert_eq!(entries.len(), 1);
    assert_eq!((entries[0].key.as_deref(), &entries[0].payload[..]), (Some("k"), &b"7"[..]));
}

#[tokio::test]
async fn a_serialized_key_makes_the_next_transaction_wait_and_leaves_no_row() {
    let harness = MySqlHarness::start().await;
    let outbox = harness.outbox(ROUTE);
    let mut first = harness.begin().await;
    outbox.serialize(&mut first, "k").await.unwrap();
    // Another key is free.
    let mut other = harness.begin().await;
    outbox.serialize(&mut other, "K").await.unwrap();
    harness.rollback(other).await;
    let mut waiting = JoinSet::new();
    waiting.spawn({
        let (outbox, pool) = (outbox.clone(), harness.store().pool().clone());
        async move {
            let mut tx = pool.begin().await.unwrap();
            outbox.serialize(&mut tx, "k").await.unwrap();
            let row = sqlx::query("select count(*) from pillarbox_outbox").fetch_one(&mut *tx).await.unwrap();
            outbox.commit(tx).await.unwrap();
            row.get_unchecked::<i64, _>(0)
        }
    });
    let _ = outbox.stage(&mut first, event(1).key("k")).await.unwrap();
    outbox.commit(first).await.unwrap();
    assert_eq!(waiting.join_all().await, [1], "it saw what the first one staged");
    assert_eq!(harness.database.number("select count(*) from pillarbox_serial").await, 0);
}

/// The table takes 16 bytes that look like the beginning of a text for a text that was cut.
#[tokio::test]
async fn what_the_table_refuses_is_no_duplicate() {
    let harness = MySqlHarness::start().await;
    let id = pillarbox_core::EventId(uuid::Uuid::from_bytes(*b"018f3c2e-abcd-70"));
    let (outbox, mut tx) = (harness.outbox(ROUTE), harness.begin().await);
    let refused = outbox.stage(&mut tx, event(1).id(id)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    let refused = outbox.stage_all(&mut tx, [event(1).id(id), event(2)]).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    harness.rollback(tx).await;
}
