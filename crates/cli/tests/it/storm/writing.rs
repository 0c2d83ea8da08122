//! Writers whose transactions overlap, commit in another order than they staged in, and roll back.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use serde_json::json;
use sqlx::{Connection, PgConnection};

use crate::home::postgres;
use crate::killed::Shop;
use crate::place::wait;

const KEYS: u64 = 200;
/// Transactions that each writer has open at once.
const OPEN: usize = 3;
/// Rounds of one writer: enough to see something, and not so many that a slow relay never ends.
const ROUNDS_MIN: u32 = 20;
const ROUNDS_MAX: u32 = 120;

/// Numbers that look random and are the same for the same seed.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % below
    }

    pub(crate) fn index(&mut self, below: usize) -> usize {
        usize::try_from(self.roll(below as u64)).unwrap()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a pace for the load and the weather, not a wait for something"
    )]
    pub(crate) fn pause(&mut self, millis: std::ops::Range<u64>) {
        std::thread::sleep(Duration::from_millis(millis.start + self.roll(millis.end - millis.start)));
    }
}

/// What a writer has done.
#[derive(Default)]
pub(super) struct Record {
    /// Lines of what was committed.
    pub(super) committed: Vec<String>,
    pub(super) rolled_back: Vec<String>,
    /// Entries that were committed before one that was staged before them.
    pub(super) overtakers: usize,
}

/// One event of an open transaction.
struct Staged {
    id: String,
    key: String,
    at: i64,
}

impl Staged {
    fn line(&self, committed: i64) -> String {
        let Self { id, key, at } = self;
        json!({"route": "orders", "event_id": id, "key": key, "staged_at": at, "committed_at": committed})
            .to_string()
    }
}

/// Stages until it is told to stop. `clock` counts what all writers do: before an event is sent, after a commit has
/// come back.
pub(super) fn write(shop: &Shop, seed: u64, clock: &AtomicI64, stop: &AtomicBool) -> Record {
    let mut dice = Dice(seed);
    let mut record = Record::default();
    let insert = "insert into {s}.pillarbox_outbox (event_id, route, type, key, payload) \
                  values ($1, 'orders', 't', $2, '7')";
    let mut connections: Vec<PgConnection> = wait(async {
        let mut connections = Vec::new();
        for _ in 0..OPEN {
            connections.push(PgConnection::connect(&postgres()).await.unwrap());
        }
        connections
    });
    for round in 0..ROUNDS_MAX {
        if round >= ROUNDS_MIN && stop.load(Ordering::Relaxed) {
            break;
        }
        let mut open: Vec<(PgConnection, Vec<Staged>)> =
            connections.drain(..).map(|one| (one, vec![])).collect();
        wait(async {
            for (connection, _) in &mut open {
                sqlx::raw_sql("begin").execute(connection).await.unwrap();
            }
            for _ in 0..4 + dice.roll(8) {
                let (connection, staged) = &mut open[dice.index(OPEN)];
                // Half of them are of a few keys, so that transactions meet.
                let among = if dice.roll(2) == 0 { 10 } else { KEYS };
                let key = format!("k-{}", dice.roll(among));
                let (id, at) = (uuid::Uuid::new_v4(), clock.fetch_add(1, Ordering::SeqCst));
                sqlx::query(shop.sql(insert)).bind(id).bind(&key).execute(connection).await.unwrap();
                staged.push(Staged { id: id.to_string(), key, at });
            }
            let mut newest = i64::MIN;
            while !open.is_empty() {
                let (mut connection, staged) = open.swap_remove(dice.index(open.len()));
                if dice.roll(5) == 0 {
                    sqlx::raw_sql("rollback").execute(&mut connection).await.unwrap();
                    record.rolled_back.extend(staged.iter().map(|staged| staged.line(i64::MAX)));
                } else {
                    sqlx::raw_sql("commit").execute(&mut connection).await.unwrap();
                    let at = clock.fetch_add(1, Ordering::SeqCst);
                    record.committed.extend(staged.iter().map(|staged| staged.line(at)));
                    record.overtakers += staged.iter().filter(|staged| staged.at < newest).count();
                    newest = staged.iter().map(|staged| staged.at).max().unwrap_or(newest).max(newest);
                }
                connections.push(connection);
            }
        });
        dice.pause(10..100);
    }
    record
}
