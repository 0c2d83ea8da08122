//! What the application wants of its database. Only the two files that implement it know which one it is.

use std::sync::Arc;

use pillarbox::operate::Presence;
use pillarbox::{Admin, Handle, Saga, SagaAdmin, Sagas, Store};

use crate::Failure;

pub(crate) trait Database: Clone + Send + Sync + 'static {
    /// The tables of Pillarbox in it.
    type Store: Admin + Presence + SagaAdmin + Store + 'static;

    fn store(&self) -> Arc<Self::Store>;

    /// The sagas, with what is written in the very transaction in which one completes.
    fn sagas(&self) -> Arc<dyn Sagas>;

    /// A person asks to be forgotten: the request and the saga are one transaction. Asking again changes nothing, and is
    /// `false`.
    async fn request(&self, person: &str, saga: Saga, relay: Handle) -> Result<bool, Failure>;

    /// Deletes a person. `false`: there was nobody.
    fn delete(&self, person: &str) -> impl Future<Output = sqlx::Result<bool>> + Send;
}
