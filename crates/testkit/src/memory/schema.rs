//! The in-memory store has no tables: its schema is always ready.

use async_trait::async_trait;
use pillarbox_core::Result;
use pillarbox_core::port::{Migrated, Schema, SchemaState};

use super::store::MemoryStore;

const VERSION: u32 = 1;

#[async_trait]
impl Schema for MemoryStore {
    async fn inspect(&self) -> Result<SchemaState> {
        Ok(SchemaState::Ready { warnings: vec![] })
    }

    async fn migrate(&self) -> Result<Migrated> {
        Ok(Migrated { from: VERSION, to: VERSION })
    }

    async fn plan(&self) -> Result<String> {
        Ok(String::new())
    }
}
