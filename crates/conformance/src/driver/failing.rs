//! What the database refuses has the same kind whatever driver it comes through.

use pillarbox_core::port::Stage;
use pillarbox_core::{ErrorKind, Retry};

use super::steps::*;
use super::{Act, DriverHarness, End, Said};
use crate::StoreHarness;
use crate::store::steps::{ROUTE, event};

/// Without the tables the error is about the schema, and no retry helps.
pub async fn missing_tables_are_told_by_every_driver<H: DriverHarness>(harness: &H) {
    for act in [Act::Stage(event(1)), Act::StageAll(vec![event(1), event(2)])] {
        let said = harness.run(harness.missing(ROUTE), vec![act], End::RollBack).await;
        let (Said::Staged(Err(error)) | Said::AllStaged(Err(error))) = &said[0] else { panic!("{said:?}") };
        assert_eq!((error.kind(), error.retry()), (ErrorKind::Schema, Retry::Never), "{error}");
    }
}

/// While another transaction has staged the same event and stays open, staging it is contention: after the
/// timeout, or at once where the database does not wait.
pub async fn a_lock_that_stays_is_contention_for_every_driver<H: DriverHarness>(harness: &H) {
    let mut first = harness.base().begin().await;
    outbox(harness).stage_all(&mut first, vec![event(1)]).await.unwrap();
    let said = roll_back(harness, vec![Act::Stage(event(1))]).await;
    let Said::Staged(Err(error)) = &said[0] else { panic!("{said:?}") };
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Contention, Retry::Later), "{error}");
    harness.base().rollback(first).await;
    let said = commit(harness, vec![Act::Stage(event(1))]).await;
    assert!(!staged(&said[0]).is_duplicate());
}
