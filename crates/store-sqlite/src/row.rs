//! Reading a row. Plain SQL may have written it, so nothing about it is taken for granted: what cannot be read
//! is named, and the rest of the row still shows.

use pillarbox_core::port::shared::{Columns, parse_headers};
use pillarbox_core::{
    Entry, EventId, Failure, FailureKind, Fence, Hlc, Result, RouteName, Status, Timestamp,
};
use sqlx::sqlite::SqliteRow;
use sqlx::{Decode, Row, Sqlite, ValueRef};
use uuid::Uuid;

use crate::error::classify;

/// The columns of an entry, in the order in which [`decode`] reads them; the last is for statements alone.
pub(crate) const COLUMNS: [&str; 30] = [
    "seq",
    "event_id",
    "route",
    "type",
    "key",
    "payload",
    "payload_bytes",
    "content_type",
    "headers",
    "tenant",
    "correlation_id",
    "causation_id",
    "execution_id",
    "occurred_at",
    "priority",
    "group_id",
    "hlc",
    "status",
    "attempts",
    "crashes",
    "max_attempts",
    "due_at",
    "fence",
    "owner",
    "last_error",
    "last_attempt_at",
    "created_at",
    "settled_at",
    "lane",
    "leased_at",
];

/// The columns of a saga, in the order in which `saga::read` reads them.
pub(crate) const SAGA: [&str; 15] = [
    "id",
    "name",
    "route",
    "subject_kind",
    "subject_value",
    "generation",
    "status",
    "version",
    "dead",
    "due_at",
    "deadline_at",
    "body",
    "created_at",
    "updated_at",
    "ended_at",
];

/// A row as far as it could be read.
pub(crate) struct Decoded {
    /// The entry; fields that could not be read have their neutral value.
    pub(crate) entry: Entry,
    /// Its lane, which a claim by rows does not need.
    pub(crate) lane: Option<u8>,
    /// Whether the id could be read.
    pub(crate) id_known: bool,
    /// Which column could not be read; the first one.
    pub(crate) spoiled: Option<&'static str>,
}

impl Decoded {
    /// Why the row is no entry, without its data.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.spoiled.map(|column| {
            Failure::new(FailureKind::Undecodable, column, format!("the column {column} cannot be read"))
        })
    }
}

/// Reads the [`COLUMNS`] of a row.
pub(crate) fn decode(row: &SqliteRow) -> Result<Decoded> {
    let mut reader = Reader { row, column: 0, spoiled: None };
    let seq = reader.required(0);
    let id: Option<EventId> = reader.parsed(|text| Uuid::try_parse(text).ok().map(EventId));
    let mut entry = Entry::new(
        seq,
        id.unwrap_or(EventId(Uuid::nil())),
        reader.route(),
        reader.required(String::new()),
        Timestamp::MIN,
    );
    entry.key = reader.optional();
    entry.payload = reader.payload();
    entry.content_type = reader.required(String::new());
    entry.headers = reader.parsed(parse_headers).unwrap_or_default();
    entry.tenant = reader.optional();
    entry.correlation_id = reader.optional();
    entry.causation_id = reader.optional();
    entry.execution_id = reader.optional();
    entry.occurred_at = reader.optional_as(Timestamp::from_micros);
    entry.priority = reader.required_as(|number| i16::try_from(number).ok(), 0);
    entry.group_id = reader.optional();
    entry.hlc = reader.optional_as(|number| Hlc::from_raw(number).ok());
    entry.status = reader.parsed(|text| text.parse().ok()).unwrap_or(Status::InFlight);
    entry.attempts = reader.required_as(|number| u32::try_from(number).ok(), 0);
    entry.crashes = reader.required_as(|number| u32::try_from(number).ok(), 0);
    entry.max_attempts = reader.optional_as(|number| u32::try_from(number).ok());
    entry.due_at = reader.optional_as(Timestamp::from_micros);
    entry.fence = Fence(reader.required(0));
    entry.owner = reader.optional();
    entry.last_error = reader.optional::<String>().map(|text| Failure::parse(&text));
    entry.last_attempt_at = reader.optional_as(Timestamp::from_micros);
    entry.created_at = reader.required_as(Timestamp::from_micros, Timestamp::MIN);
    entry.settled_at = reader.optional_as(Timestamp::from_micros);
    let lane = reader.next::<i64>().flatten().and_then(|lane| u8::try_from(lane).ok());
    Ok(Decoded { entry, lane, id_known: id.is_some(), spoiled: reader.spoiled })
}

/// The columns of an answer that is not on the way of every entry. Names that plain SQL has spoiled are shown as far as
/// they can be.
pub(crate) struct Cells<'r> {
    row: &'r SqliteRow,
    column: usize,
}

impl<'r> Cells<'r> {
    pub(crate) fn of(row: &'r SqliteRow) -> Self {
        Self::from(row, 0)
    }

    /// From this column on.
    pub(crate) fn from(row: &'r SqliteRow, column: usize) -> Self {
        Self { row, column }
    }

    fn next<T: Decode<'r, Sqlite>>(&mut self) -> Result<T> {
        self.column += 1;
        self.row.try_get_unchecked(self.column - 1).map_err(classify)
    }
}

impl Columns for Cells<'_> {
    fn optional_text(&mut self) -> Result<Option<String>> {
        self.next()
    }

    fn optional_number(&mut self) -> Result<Option<i64>> {
        self.next()
    }

    fn flag(&mut self) -> Result<bool> {
        self.next()
    }

    fn time(&mut self) -> Result<Option<Timestamp>> {
        Ok(self.next::<Option<i64>>()?.and_then(Timestamp::from_micros))
    }

    fn event_id(&mut self) -> Result<Option<EventId>> {
        Ok(self.next::<Option<&str>>()?.and_then(|id| Uuid::try_parse(id).ok()).map(EventId))
    }

    fn route(&mut self) -> Result<RouteName> {
        Ok(RouteName::shown(self.next::<Option<&str>>().ok().flatten().unwrap_or_default()))
    }
}

/// Reads column after column and remembers the first that cannot be read.
struct Reader<'r> {
    row: &'r SqliteRow,
    column: usize,
    spoiled: Option<&'static str>,
}

impl<'r> Reader<'r> {
    fn next<T: Decode<'r, Sqlite>>(&mut self) -> Option<Option<T>> {
        let read = self.row.try_get_unchecked(self.column).ok();
        self.column += 1;
        read
    }

    fn spoil(&mut self) {
        self.spoiled = self.spoiled.or(COLUMNS.get(self.column - 1).copied());
    }

    fn optional<T: Decode<'r, Sqlite>>(&mut self) -> Option<T> {
        let read = self.next();
        if read.is_none() {
            self.spoil();
        }
        read.flatten()
    }

    fn required<T: Decode<'r, Sqlite>>(&mut self, neutral: T) -> T {
        let read = self.next().flatten();
        read.unwrap_or_else(|| {
            self.spoil();
            neutral
        })
    }

    fn optional_as<T>(&mut self, convert: impl FnOnce(i64) -> Option<T>) -> Option<T> {
        let number = self.optional::<i64>()?;
        let converted = convert(number);
        if converted.is_none() {
            self.spoil();
        }
        converted
    }

    fn required_as<T>(&mut self, convert: impl FnOnce(i64) -> Option<T>, neutral: T) -> T {
        let converted = self.next::<i64>().flatten().and_then(convert);
        converted.unwrap_or_else(|| {
            self.spoil();
            neutral
        })
    }

    fn parsed<T>(&mut self, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let parsed = self.next::<&str>().flatten().and_then(parse);
        if parsed.is_none() {
            self.spoil();
        }
        parsed
    }

    /// A text of plain SQL, or bytes: the bytes of either are the payload.
    fn payload(&mut self) -> Vec<u8> {
        let mut bytes = None;
        for _ in ["payload", "payload_bytes"] {
            if let Ok(value) = self.row.try_get_raw(self.column)
                && !value.is_null()
            {
                bytes = <Vec<u8> as Decode<'_, Sqlite>>::decode(value).ok();
            }
            self.column += 1;
        }
        bytes.unwrap_or_else(|| {
            self.spoil();
            Vec::new()
        })
    }

    /// A name with control characters in it can only come from plain SQL; it is shown without them.
    fn route(&mut self) -> RouteName {
        let text = self.required(String::new());
        RouteName::new(text.as_str()).unwrap_or_else(|_| {
            self.spoil();
            RouteName::shown(&text)
        })
    }
}
