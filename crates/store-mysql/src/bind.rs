//! Binding values: what cannot be encoded is one typed error at the end. Lists are JSON, which the server reads as
//! rows.

use pillarbox_core::{Error, Held, Result, Timestamp};
use serde::Serialize;
use sqlx::Arguments;
use sqlx::mysql::MySqlArguments;

use crate::statement::{Param, Value};

/// The values of one call by their numbers, `?1` first. A value may stand in several places of a statement.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bind {
    values: Vec<Value>,
    refused: bool,
}

impl Bind {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    fn push(mut self, value: Value) -> Self {
        self.values.push(value);
        self
    }

    pub(crate) fn text(self, text: impl Into<String>) -> Self {
        self.push(Value::Text(Some(text.into())))
    }

    pub(crate) fn optional_text(self, text: Option<impl Into<String>>) -> Self {
        self.push(Value::Text(text.map(Into::into)))
    }

    /// Bytes are taken as they are, whatever the character set of the connection.
    pub(crate) fn bytes(self, bytes: impl Into<Vec<u8>>) -> Self {
        self.push(Value::Bytes(bytes.into()))
    }

    pub(crate) fn number(self, number: i64) -> Self {
        self.push(Value::Integer(Some(number)))
    }

    pub(crate) fn optional_number(self, number: Option<i64>) -> Self {
        self.push(Value::Integer(number))
    }

    pub(crate) fn flag(self, flag: bool) -> Self {
        self.number(flag.into())
    }

    pub(crate) fn at(self, at: Option<Timestamp>) -> Self {
        self.optional_number(at.map(Timestamp::as_micros))
    }

    /// Claims as `[[seq, fence], …]`.
    pub(crate) fn held(self, held: impl Iterator<Item = Held>) -> Self {
        self.json(&held.map(|held| (held.seq, held.fence.0)).collect::<Vec<_>>())
    }

    /// Anything else as JSON.
    pub(crate) fn json(self, value: &impl Serialize) -> Self {
        match serde_json::to_string(value) {
            Ok(json) => self.text(json),
            Err(_) => self.refuse(),
        }
    }

    /// What another driver would be told. Texts go as bytes: a connection of the application may have any character set.
    pub(crate) fn param(self, param: Param) -> Self {
        match param {
            Param::Null => self.optional_number(None),
            Param::Integer(number) => self.number(number),
            Param::Text(text) => self.bytes(text),
            Param::Bytes(bytes) => self.bytes(bytes),
            _ => self.refuse(),
        }
    }

    /// There is no way to send a value.
    fn refuse(self) -> Self {
        Self { refused: true, ..self }
    }

    /// The values in the order of a statement's places.
    pub(crate) fn placed(self, places: &[u16]) -> Result<Vec<Value>> {
        if self.refused {
            return Err(unsendable());
        }
        if places.iter().map(|place| usize::from(*place)).eq(1..=self.values.len()) {
            return Ok(self.values);
        }
        let value = |place: &u16| {
            usize::from(*place).checked_sub(1).and_then(|place| self.values.get(place)).cloned()
        };
        places.iter().map(|place| value(place).ok_or_else(unsendable)).collect()
    }
}

/// The values as the driver of the store takes them.
pub(crate) fn arguments(values: &[Value]) -> Result<MySqlArguments> {
    let mut arguments = MySqlArguments::default();
    for value in values {
        let added = match value {
            Value::Integer(number) => arguments.add(*number),
            Value::Text(text) => arguments.add(text.as_deref()),
            Value::Bytes(bytes) => arguments.add(bytes.as_slice()),
        };
        added.map_err(|_| unsendable())?;
    }
    Ok(arguments)
}

fn unsendable() -> Error {
    Error::invalid("a value cannot be passed to the database")
}
