//! The answer to a message.

use std::sync::Arc;

use async_trait::async_trait;
use pillarbox_core::Result;
use pillarbox_core::port::Receipt;

use super::group::Group;

/// Answers one entry. Dropped without an answer it gives the entry back.
pub(super) struct RedisReceipt {
    group: Arc<Group>,
    id: String,
    answered: bool,
}

impl RedisReceipt {
    pub(super) fn new(group: &Arc<Group>, id: String) -> Self {
        group.held().insert(id.clone());
        Self { group: Arc::clone(group), id, answered: false }
    }
}

#[async_trait]
impl Receipt for RedisReceipt {
    async fn ack(mut self: Box<Self>) -> Result<()> {
        self.answered = true;
        self.group.acknowledge(&self.id).await
    }

    async fn nack(mut self: Box<Self>) -> Result<()> {
        self.answered = true;
        // Before it is given back, so that a consumer that looks at once may take it.
        self.group.held().remove(&self.id);
        self.group.give_back(&self.id).await
    }

    async fn park(mut self: Box<Self>) -> Result<()> {
        self.answered = true;
        self.group.park(&self.id).await
    }
}

impl Drop for RedisReceipt {
    fn drop(&mut self) {
        self.group.held().remove(&self.id);
        if !self.answered {
            self.group.let_go([self.id.as_str()]);
        }
    }
}
