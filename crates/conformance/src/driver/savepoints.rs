//! Savepoints in a driver's transaction, where the database has them.

use super::steps::*;
use super::{Act, DriverHarness, End, Said};
use crate::store::steps::{event, id};

/// A nested transaction takes back its own events only.
pub async fn what_a_driver_rolls_back_to_a_savepoint_is_gone_and_the_rest_stays<H: DriverHarness>(
    harness: &H,
) {
    let inner = |n| vec![Act::Stage(event(n)), Act::StageAll(vec![event(n + 1), event(n + 2)]), Act::Count];
    let said = commit(
        harness,
        vec![
            Act::Stage(event(1)),
            Act::Nested(inner(10), End::RollBack),
            Act::Count,
            Act::Nested(inner(20), End::Commit),
            Act::Stage(event(2)),
        ],
    )
    .await;
    assert!(matches!(&said[1], Said::Nested(inner) if matches!(inner[2], Said::Counted(4))), "{said:?}");
    assert!(matches!(said[2], Said::Counted(1)), "{said:?}");
    let ids: Vec<_> = entries(harness).await.iter().map(|entry| entry.event_id).collect();
    assert_eq!(ids, [1, 20, 21, 22, 2].map(id));
}
