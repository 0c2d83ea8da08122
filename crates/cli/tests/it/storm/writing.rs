//! Writers whose transactions overlap, commit in another order than they staged in, and roll back.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use crate::place::wait;
use serde_json::json;

use super::database::{Database, Session};

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
pub(super) fn write(database: &Database, seed: u64, clock: &AtomicI64, stop: &AtomicBool) -> Record {
    let mut dice = Dice(seed);
    let mut record = Record::default();
    let mut sessions: Vec<Session> = wait(async {
        let mut sessions = Vec::new();
        for _ in 0..OPEN {
            sessions.push(database.connect().await);
        }
        sessions
    });
    for round in 0..ROUNDS_MAX {
        if round >= ROUNDS_MIN && stop.load(Ordering::Relaxed) {
            break;
        }
        let mut open: Vec<(Session, Vec<Staged>)> = sessions.drain(..).map(|one| (one, vec![])).collect();
        wait(async {
            for (session, _) in &mut open {
                session.begin().await;
            }
            for _ in 0..4 + dice.roll(8) {
                let (session, staged) = &mut open[dice.index(OPEN)];
                // Half of them are of a few keys, so that transactions meet.
                let among = if dice.roll(2) == 0 { 10 } else { KEYS };
                let key = format!("k-{}", dice.roll(among));
                let (id, at) = (uuid::Uuid::new_v4(), clock.fetch_add(1, Ordering::SeqCst));
                session.stage(id, &key).await;
                staged.push(Staged { id: id.to_string(), key, at });
            }
            let mut newest = i64::MIN;
            while !open.is_empty() {
                let (mut session, staged) = open.swap_remove(dice.index(open.len()));
                if dice.roll(5) == 0 {
                    session.roll_back().await;
                    record.rolled_back.extend(staged.iter().map(|staged| staged.line(i64::MAX)));
                } else {
                    session.commit().await;
                    let at = clock.fetch_add(1, Ordering::SeqCst);
                    record.committed.extend(staged.iter().map(|staged| staged.line(at)));
                    record.overtakers += staged.iter().filter(|staged| staged.at < newest).count();
                    newest = staged.iter().map(|staged| staged.at).max().unwrap_or(newest).max(newest);
                }
                sessions.push(session);
            }
        });
        dice.pause(10..100);
    }
    record
}
