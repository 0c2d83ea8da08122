//! Which records of the audit trail an operator looks at.

use crate::audit::AuditKind;
use crate::limits::LIST_DEFAULT;
use crate::time::Timestamp;

/// Which records of the audit trail to read. Every field that is set narrows them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AuditFilter {
    /// Only records of these kinds. Default: empty, which means any.
    pub kinds: Vec<AuditKind>,
    /// Only records of this actor. Default: any.
    pub actor: Option<String>,
    /// Only records from this time or later. Default: any.
    pub since: Option<Timestamp>,
    /// Only records below this sequence number, the last one of the previous page. Default: from the newest.
    pub before: Option<i64>,
    /// The most records to read. Default: [`LIST_DEFAULT`].
    pub limit: u32,
}

impl Default for AuditFilter {
    fn default() -> Self {
        Self { kinds: Vec::new(), actor: None, since: None, before: None, limit: LIST_DEFAULT }
    }
}

impl AuditFilter {
    /// Selects only records of these kinds.
    #[must_use]
    pub fn kinds(mut self, kinds: impl IntoIterator<Item = AuditKind>) -> Self {
        self.kinds = kinds.into_iter().collect();
        self
    }

    /// Selects only records of this actor.
    #[must_use]
    pub fn actor(mut self, actor: impl Into<String>) -> Self {
        self.actor = Some(actor.into());
        self
    }

    /// Selects only records from this time or later.
    #[must_use]
    pub fn since(mut self, since: Timestamp) -> Self {
        self.since = Some(since);
        self
    }

    /// Selects only records below this sequence number.
    #[must_use]
    pub fn before(mut self, seq: i64) -> Self {
        self.before = Some(seq);
        self
    }

    /// Sets the most records to read.
    #[must_use]
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = limit;
        self
    }
}
