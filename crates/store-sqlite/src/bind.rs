//! Binding values: what cannot be encoded is one typed error at the end. Lists are JSON, which SQLite reads
//! as rows.

use std::fmt::Write;

use pillarbox_core::{Error, Held, Result, Timestamp};
use serde::Serialize;
use sqlx::sqlite::SqliteArguments;
use sqlx::{Arguments, Encode, Sqlite, Type};

/// The values of one call, in the order of their places.
#[derive(Clone)]
pub(crate) struct Bind {
    arguments: SqliteArguments,
    refused: bool,
}

impl Bind {
    pub(crate) fn new() -> Self {
        Self { arguments: SqliteArguments::default(), refused: false }
    }

    pub(crate) fn value<'q, T>(mut self, value: T) -> Self
    where
        T: Encode<'q, Sqlite> + Type<Sqlite>,
    {
        self.refused |= self.arguments.add(value).is_err();
        self
    }

    pub(crate) fn text(self, text: &str) -> Self {
        self.value(text.to_owned())
    }

    pub(crate) fn number(self, number: i64) -> Self {
        self.value(number)
    }

    pub(crate) fn at(self, at: Option<Timestamp>) -> Self {
        self.value(at.map(Timestamp::as_micros))
    }

    /// Claims as `{"seq": fence, …}`.
    pub(crate) fn held(self, held: &[Held]) -> Self {
        self.value(held_json(held.iter().copied()))
    }

    /// Anything else as JSON.
    pub(crate) fn json(self, value: &impl Serialize) -> Self {
        match serde_json::to_string(value) {
            Ok(json) => self.value(json),
            Err(_) => self.refuse(),
        }
    }

    /// There is no way to send a value.
    pub(crate) fn refuse(self) -> Self {
        Self { refused: true, ..self }
    }

    pub(crate) fn done(self) -> Result<SqliteArguments> {
        if self.refused {
            return Err(Error::invalid("a value cannot be passed to SQLite"));
        }
        Ok(self.arguments)
    }
}

/// Claims as the JSON parameter that statements read: `{"seq": fence, …}`. An object, because its members
/// need no second look at the text as the elements of an array of pairs would.
pub(crate) fn held_json(held: impl Iterator<Item = Held>) -> String {
    let mut json = String::from("{");
    for (index, held) in held.enumerate() {
        let comma = if index > 0 { "," } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(json, "{comma}\"{}\":{}", held.seq, held.fence.0);
    }
    json.push('}');
    json
}

/// Rows as the JSON parameter that statements read: `[seq, …]`.
pub(crate) fn seqs_json(seqs: &[i64]) -> Result<String> {
    serde_json::to_string(seqs).map_err(|_| Error::invalid("a row cannot be written as JSON"))
}
