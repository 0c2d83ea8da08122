//! The tables: ready after a migration, safe to migrate at once, and honest when they are damaged.

use futures_util::future::join_all;
use pillarbox_core::ErrorKind;
use pillarbox_core::port::{Schema, SchemaState};

use super::steps::*;
use crate::{StoreHarness, Tamper};

/// A fresh store has nothing to complain about.
pub async fn a_migrated_store_is_ready<H: StoreHarness>(harness: &H) {
    let state = harness.store().inspect().await.unwrap();
    assert_eq!(state, SchemaState::Ready { warnings: vec![] });
    state.check().unwrap();
}

/// A second migration finds nothing to do and keeps what is there; so do many at once.
pub async fn migrating_again_changes_nothing<H: StoreHarness>(harness: &H) {
    assert_eq!(stage(harness, events(3)).await.len(), 3);
    let before = all(harness).await;
    let stores: Vec<_> = (0..4).map(|_| harness.store()).collect();
    for migrated in join_all(stores.iter().map(|store| store.migrate())).await {
        let migrated = migrated.unwrap();
        assert_eq!(migrated.from, migrated.to);
    }
    assert_eq!(all(harness).await, before);
    assert_eq!(harness.store().inspect().await.unwrap(), SchemaState::Ready { warnings: vec![] });
}

/// A missing column is named, nothing is guessed.
pub async fn damaged_tables_are_named<H: StoreHarness>(harness: &H) {
    tamper!(harness, Tamper::DropColumn);
    let state = harness.store().inspect().await.unwrap();
    let SchemaState::Damaged { differences } = &state else { panic!("{state:?}") };
    assert!(differences.iter().any(|difference| difference.contains("last_error")), "{differences:?}");
    assert_eq!(state.check().unwrap_err().kind(), ErrorKind::Schema);
}
