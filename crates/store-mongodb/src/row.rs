//! Reading documents. Plain inserts may have written them, so nothing about them is taken for granted.

use std::vec::IntoIter;

use mongodb::bson::{Binary, Bson, Document, spec::BinarySubtype};
use pillarbox_core::port::shared::{Columns, EntryCells, Read};
pub(crate) use pillarbox_core::port::shared::{Decoded, ENTRY as COLUMNS, SAGA};
use pillarbox_core::{Error, ErrorKind, EventId, Result, Timestamp};
use uuid::Uuid;

use crate::command::seq_of;

/// The id that a binary value holds.
pub(crate) fn uuid_of(value: &Binary) -> Option<Uuid> {
    match value.subtype {
        BinarySubtype::Uuid | BinarySubtype::Generic => Uuid::from_slice(&value.bytes).ok(),
        _ => None,
    }
}

/// A whole number, whatever number type it has. Plain inserts from JavaScript write doubles.
pub(crate) fn number_of(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(number) => Some((*number).into()),
        Bson::Int64(number) => Some(*number),
        #[expect(clippy::cast_possible_truncation, reason = "a whole number in range, as it was checked")]
        Bson::Double(number) if number.fract() == 0.0 && number.abs() < 9e15 => Some(*number as i64),
        Bson::Timestamp(stamp) => Some(seq_of(*stamp)),
        Bson::Boolean(flag) => Some((*flag).into()),
        Bson::DateTime(at) => at.timestamp_millis().checked_mul(1000),
        _ => None,
    }
}

/// A number of a document; null and what is missing are zero.
pub(crate) fn number(document: &Document, name: &str) -> i64 {
    document.get(name).and_then(number_of).unwrap_or(0)
}

/// A text of a document; what is missing is empty.
pub(crate) fn text<'d>(document: &'d Document, name: &str) -> &'d str {
    document.get_str(name).unwrap_or_default()
}

/// Reads an entry.
pub(crate) fn decode(document: Document) -> Decoded {
    Decoded::read(Fields { document, column: 0, text: String::new() })
}

/// The fields of an entry in the order of [`COLUMNS`].
struct Fields {
    document: Document,
    column: usize,
    /// What [`EntryCells::text`] lends.
    text: String,
}

impl Fields {
    fn next(&mut self) -> (&'static str, Bson) {
        let name = COLUMNS.get(self.column).copied().unwrap_or_default();
        self.column += 1;
        // One field stands for two columns.
        if name == "payload_bytes" {
            return (name, Bson::Null);
        }
        let value = self.document.remove(name).unwrap_or(Bson::Null);
        (name, value)
    }
}

impl EntryCells for Fields {
    fn number(&mut self) -> Read<i64> {
        match self.next().1 {
            Bson::Null => Some(None),
            value => number_of(&value).map(Some),
        }
    }

    fn text(&mut self) -> Read<&str> {
        match self.next() {
            // No headers are not written.
            ("headers", Bson::Null) => self.text = "{}".to_owned(),
            (_, Bson::Null) => return Some(None),
            (_, Bson::String(text)) => self.text = text,
            ("headers", Bson::Document(headers)) => {
                self.text = serde_json::to_string(&headers).ok()?;
            }
            _ => return None,
        }
        Some(Some(&self.text))
    }

    fn bytes(&mut self) -> Read<Vec<u8>> {
        match self.next().1 {
            Bson::Null => Some(None),
            Bson::String(text) => Some(Some(text.into_bytes())),
            Bson::Binary(binary) => Some(Some(binary.bytes)),
            _ => None,
        }
    }

    fn id(&mut self) -> Read<Uuid> {
        match self.next().1 {
            Bson::Null => Some(None),
            Bson::Binary(binary) => uuid_of(&binary).map(Some),
            Bson::String(text) => Uuid::parse_str(&text).ok().map(Some),
            _ => None,
        }
    }
}

/// Values from left to right, as the readers that all stores share take them.
pub(crate) struct Cells(IntoIter<Bson>);

impl Cells {
    /// The fields of these names.
    pub(crate) fn of(document: &Document, names: &[&str]) -> Self {
        Self::values(names.iter().map(|name| document.get(name).cloned().unwrap_or(Bson::Null)).collect())
    }

    /// These values.
    pub(crate) fn values(values: Vec<Bson>) -> Self {
        Self(values.into_iter())
    }

    fn next(&mut self) -> Bson {
        self.0.next().unwrap_or(Bson::Null)
    }
}

fn unreadable() -> Error {
    Error::new(ErrorKind::Corrupt, "a stored document has a field of another type than is needed")
}

impl Columns for Cells {
    fn optional_text(&mut self) -> Result<Option<String>> {
        match self.next() {
            Bson::Null => Ok(None),
            Bson::String(text) => Ok(Some(text)),
            Bson::Binary(binary) => Ok(uuid_of(&binary).map(|id| id.to_string())),
            _ => Err(unreadable()),
        }
    }

    fn optional_number(&mut self) -> Result<Option<i64>> {
        match self.next() {
            Bson::Null => Ok(None),
            value => number_of(&value).map(Some).ok_or_else(unreadable),
        }
    }

    fn flag(&mut self) -> Result<bool> {
        Ok(self.optional_number()?.unwrap_or(0) != 0)
    }

    fn time(&mut self) -> Result<Option<Timestamp>> {
        Ok(self.optional_number()?.and_then(Timestamp::from_micros))
    }

    fn event_id(&mut self) -> Result<Option<EventId>> {
        match self.next() {
            Bson::Binary(binary) => Ok(uuid_of(&binary).map(EventId)),
            _ => Ok(None),
        }
    }
}
