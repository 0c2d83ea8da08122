//! Reading the row of an entry. Plain SQL may have written it, so nothing about it is taken for granted: what cannot
//! be read is named, and the rest of the row still shows.

use uuid::Uuid;

use crate::entry::{Entry, Fence};
use crate::event::EventId;
use crate::hlc::Hlc;
use crate::limits::NAME_CHARS_MAX;
use crate::name::RouteName;
use crate::outcome::{Failure, FailureKind};
use crate::port::{Claim, ClaimOrder, Undecodable};
use crate::status::Status;
use crate::time::Timestamp;

use super::layout::ENTRY;
use super::statement::parse_headers;

/// What a column holds. `None`: something else than was asked for. `Some(None)`: null.
pub type Read<T> = Option<Option<T>>;

/// The columns of an entry's row, from left to right. Every call moves on to the next column.
pub trait EntryCells {
    /// A whole number.
    fn number(&mut self) -> Read<i64>;

    /// A text.
    fn text(&mut self) -> Read<&str>;

    /// The bytes of a text or of a blob.
    fn bytes(&mut self) -> Read<Vec<u8>>;

    /// An id, in the form in which the database has it.
    fn id(&mut self) -> Read<Uuid>;
}

/// A row as far as it could be read.
#[derive(Clone, Debug)]
pub struct Decoded {
    /// The entry. Fields that could not be read have their neutral value.
    pub entry: Entry,
    /// The lane of the row, which a claim by rows does not need.
    pub lane: Option<u8>,
    /// Whether the id could be read.
    pub id_known: bool,
    /// The first column that could not be read.
    pub spoiled: Option<&'static str>,
}

impl Decoded {
    /// Reads the columns of [`ENTRY`] in their order.
    pub fn read(cells: impl EntryCells) -> Self {
        let mut reader = Reader { cells, column: 0, spoiled: None };
        let seq = reader.required_as(Some, 0);
        let id = reader.id();
        let mut entry = Entry::new(
            seq,
            EventId(id.unwrap_or(Uuid::nil())),
            reader.route(),
            reader.required_name(),
            Timestamp::MIN,
        );
        entry.key = reader.optional_name();
        entry.payload = reader.payload();
        entry.content_type = reader.required_name();
        entry.headers = reader.parsed(parse_headers).unwrap_or_default();
        entry.tenant = reader.optional_name();
        entry.correlation_id = reader.optional_name();
        entry.causation_id = reader.optional_name();
        entry.execution_id = reader.optional_name();
        entry.occurred_at = reader.optional_as(Timestamp::from_micros);
        entry.priority = reader.required_as(|number| i16::try_from(number).ok(), 0);
        entry.group_id = reader.optional_name();
        entry.hlc = reader.optional_as(|number| Hlc::from_raw(number).ok());
        entry.status = reader.parsed(|text| text.parse().ok()).unwrap_or(Status::InFlight);
        entry.attempts = reader.required_as(|number| u32::try_from(number).ok(), 0);
        entry.crashes = reader.required_as(|number| u32::try_from(number).ok(), 0);
        entry.max_attempts = reader.optional_as(|number| u32::try_from(number).ok());
        entry.due_at = reader.optional_as(Timestamp::from_micros);
        entry.fence = Fence(reader.required_as(Some, 0));
        entry.owner = reader.optional_text();
        entry.last_error = reader.optional_text().map(|text| Failure::parse(&text));
        entry.last_attempt_at = reader.optional_as(Timestamp::from_micros);
        entry.created_at = reader.required_as(Timestamp::from_micros, Timestamp::MIN);
        entry.settled_at = reader.optional_as(Timestamp::from_micros);
        let lane = reader.cells.number().flatten().and_then(|lane| u8::try_from(lane).ok());
        Self { entry, lane, id_known: id.is_some(), spoiled: reader.spoiled }
    }

    /// Why the row is no entry, without its data.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        self.spoiled.map(|column| {
            Failure::new(FailureKind::Undecodable, column, format!("the column {column} cannot be read"))
        })
    }

    /// The event id, if it could be read.
    #[must_use]
    pub fn event_id(&self) -> Option<EventId> {
        self.id_known.then_some(self.entry.event_id)
    }
}

impl Claim {
    /// A claim of these rows, as they are after it. They are put into the order of the claim.
    pub fn of_rows(rows: impl ExactSizeIterator<Item = Decoded>, order: ClaimOrder) -> Self {
        let mut claim = Self { entries: Vec::with_capacity(rows.len()), ..Self::default() };
        for decoded in rows {
            match decoded.failure() {
                None => claim.entries.push(decoded.entry),
                Some(failure) => {
                    let (held, event_id) = (decoded.entry.held(), decoded.event_id());
                    claim.undecodable.push(Undecodable { held, event_id, failure });
                }
            }
        }
        order.sort(&mut claim.entries);
        claim
    }
}

/// Reads column after column and remembers the first that cannot be read.
struct Reader<C> {
    cells: C,
    column: usize,
    spoiled: Option<&'static str>,
}

impl<C: EntryCells> Reader<C> {
    /// Notes that a column was read, and whether it could be.
    fn read<T>(&mut self, value: Option<T>) -> Option<T> {
        if value.is_none() {
            self.spoiled = self.spoiled.or(ENTRY.get(self.column).copied());
        }
        self.column += 1;
        value
    }

    fn optional_text(&mut self) -> Option<String> {
        let text = self.cells.text().map(|text| text.map(ToOwned::to_owned));
        self.read(text).flatten()
    }

    /// A name. One that is too long can only come from plain SQL.
    fn optional_name(&mut self) -> Option<String> {
        let name = match self.cells.text() {
            Some(Some(text)) => is_short(text).then(|| Some(text.to_owned())),
            other => other.map(|_| None),
        };
        self.read(name).flatten()
    }

    fn required_name(&mut self) -> String {
        self.parsed(|text| is_short(text).then(|| text.to_owned())).unwrap_or_default()
    }

    fn parsed<T>(&mut self, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let parsed = self.cells.text().flatten().and_then(parse);
        self.read(parsed)
    }

    fn id(&mut self) -> Option<Uuid> {
        let id = self.cells.id().flatten();
        self.read(id)
    }

    fn optional_as<T>(&mut self, convert: impl FnOnce(i64) -> Option<T>) -> Option<T> {
        let number = self.cells.number();
        let converted = match number {
            Some(Some(number)) => convert(number).map(Some),
            Some(None) => Some(None),
            None => None,
        };
        self.read(converted).flatten()
    }

    fn required_as<T>(&mut self, convert: impl FnOnce(i64) -> Option<T>, neutral: T) -> T {
        let converted = self.cells.number().flatten().and_then(convert);
        self.read(converted).unwrap_or(neutral)
    }

    /// A text of plain SQL, or bytes: the bytes of either are the payload.
    fn payload(&mut self) -> Vec<u8> {
        let (text, bytes) = (self.cells.bytes().flatten(), self.cells.bytes().flatten());
        self.column += 1;
        self.read(bytes.or(text)).unwrap_or_default()
    }

    /// A name with control characters in it can only come from plain SQL; it is shown without them.
    fn route(&mut self) -> RouteName {
        let text = self.cells.text().flatten().unwrap_or_default();
        let (name, shown) = (RouteName::new(text).ok(), RouteName::shown(text));
        self.read(name).unwrap_or(shown)
    }
}

fn is_short(name: &str) -> bool {
    name.len() <= NAME_CHARS_MAX || name.chars().count() <= NAME_CHARS_MAX
}
