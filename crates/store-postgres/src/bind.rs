//! Binding values: what cannot be encoded is one typed error at the end.

use pillarbox_core::{Error, Held, Result, Timestamp};
use sqlx::postgres::PgArguments;
use sqlx::{Arguments, Encode, Postgres, Type};

use crate::row::At;

/// The values of one call, in the order of their places.
pub(crate) struct Bind {
    arguments: PgArguments,
    refused: bool,
}

impl Bind {
    pub(crate) fn new() -> Self {
        Self { arguments: PgArguments::default(), refused: false }
    }

    pub(crate) fn value<'q, T>(mut self, value: T) -> Self
    where
        T: Encode<'q, Postgres> + Type<Postgres>,
    {
        self.refused |= self.arguments.add(value).is_err();
        self
    }

    pub(crate) fn text(self, text: &str) -> Self {
        self.value(text)
    }

    pub(crate) fn number(self, number: i64) -> Self {
        self.value(number)
    }

    pub(crate) fn at(self, at: Option<Timestamp>) -> Self {
        self.value(at.map(At::from))
    }

    /// Two arrays: rows and fences.
    pub(crate) fn held(self, held: &[Held]) -> Self {
        let seqs: Vec<i64> = held.iter().map(|held| held.seq).collect();
        let fences: Vec<i64> = held.iter().map(|held| held.fence.0).collect();
        self.value(seqs).value(fences)
    }

    pub(crate) fn done(self) -> Result<PgArguments> {
        if self.refused {
            return Err(Error::too_large(
                "the values of one call are too large for the PostgreSQL protocol. Send fewer or smaller \
                 values",
            ));
        }
        Ok(self.arguments)
    }
}
