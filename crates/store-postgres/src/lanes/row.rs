//! An entry as a read of lanes sends it. Of what the server does for one, a column is a twenty-fifth part where there
//! is something in it, and a hundredth where it is null. So what is as every entry begins is not sent.

use pillarbox_core::{
    CONTENT_TYPE_DEFAULT, Entry, EventId, Failure, Fence, Headers, Hlc, PRIORITY_DEFAULT, RouteName, Status,
    Timestamp,
};
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgRow, PgValueFormat, PgValueRef};
use sqlx::{Decode, Postgres, Row, ValueRef};
use uuid::Uuid;

use super::hint;
use crate::row::{At, Decoded, Faults, budget, get, parse_headers};

/// The columns of an entry, in the order in which [`decode`] reads them; its lane follows. The first is a text, because
/// the row that tells about the lanes does so in its place.
///
/// Headers that are a map of nothing are null. They have no room for anything, and so has an empty list; whether it is
/// one, `@>` sees without looking into it. To compare them costs twice as much, and to write them down three times.
///
/// Where the row is goes as bytes: the driver does not know the type of a place, and would ask for it.
///
/// What delivering an entry changes is one value, and null until then: nine columns cost more, also where they are
/// null.
pub(crate) const READ: &str = "type, seq, event_id, key, {payload_of}, \
    case when content_type <> 'application/json' then content_type end, \
    case when pg_column_size(headers) > 8 or headers @> '[]' then headers::text end, \
    tenant, correlation_id, causation_id, execution_id, occurred_at, group_id, hlc, created_at, \
    case when status <> 'pending' or attempts <> 0 or fence <> 0 or priority <> 100 or due_at is not null \
        or owner is not null or last_error is not null or last_attempt_at is not null or max_attempts is not null or crashes <> 0 \
    then row(status::text, attempts, fence, priority, due_at, owner, last_error, last_attempt_at, max_attempts, \
        crashes) end, \
    tidsend(ctid)";

/// How many columns a read of lanes has for an entry: those of [`READ`], then the lane.
pub(crate) const READ_COLUMNS: usize = 18;

/// Reads the [`READ_COLUMNS`]. A row that was read by lanes is not settled.
pub(crate) fn decode(row: &PgRow, route: &RouteName) -> sqlx::Result<Decoded> {
    let columns = Columns(row);
    let mut faults = Faults::none();
    let name = |column| Ok::<_, sqlx::Error>(columns.text(column)?.map(str::to_owned));
    let state = get::<Option<State<'_>>>(row, 15)?.unwrap_or(State::STAGED);
    let headers = columns.text(6)?.map_or_else(|| Some(Headers::new()), parse_headers);
    let seq = i64::from_be_bytes(columns.number(1)?.ok_or_else(missing)?);
    let mut entry = Entry::new(
        seq,
        EventId(Uuid::from_bytes(columns.number(2)?.ok_or_else(missing)?)),
        route.clone(),
        faults.name("type", name(0)?.ok_or_else(missing)?),
        faults.time("created_at", columns.number(14)?.map(At::from_wire)).unwrap_or(Timestamp::MIN),
    );
    entry.key = faults.optional_name("key", name(3)?);
    entry.payload = faults.or_default("payload", columns.bytes(4)?.map(<[u8]>::to_vec));
    entry.content_type =
        faults.name("content_type", columns.text(5)?.unwrap_or(CONTENT_TYPE_DEFAULT).to_owned());
    entry.headers = faults.or_default("headers", headers);
    entry.tenant = faults.optional_name("tenant", name(7)?);
    entry.correlation_id = faults.optional_name("correlation_id", name(8)?);
    entry.causation_id = faults.optional_name("causation_id", name(9)?);
    entry.execution_id = faults.optional_name("execution_id", name(10)?);
    entry.occurred_at = faults.time("occurred_at", columns.number(11)?.map(At::from_wire));
    entry.lane = columns.number(17)?.and_then(|lane| u8::try_from(i16::from_be_bytes(lane)).ok());
    entry.hint = columns.number(16)?.map(hint::from_wire).unwrap_or_default();
    entry.priority = state.priority;
    entry.group_id = faults.optional_name("group_id", name(12)?);
    entry.hlc = faults
        .or_default("hlc", columns.number(13)?.map(i64::from_be_bytes).map(Hlc::from_raw).transpose().ok());
    entry.status = state.status;
    entry.attempts = faults.or_default("attempts", u32::try_from(state.attempts).ok());
    entry.max_attempts = faults.or_default(
        "max_attempts",
        state.max_attempts.map(budget).map_or(Some(None), |budget| budget.map(Some)),
    );
    entry.crashes = faults.or_default("crashes", u32::try_from(state.crashes).ok());
    entry.due_at = state.due_at.and_then(At::timestamp);
    entry.fence = Fence(state.fence);
    entry.owner = state.owner.map(str::to_owned);
    entry.last_error = state.last_error.map(Failure::parse);
    entry.last_attempt_at = faults.time("last_attempt_at", state.last_attempt_at);
    Ok(Decoded { entry, undecodable: faults.first() })
}

/// The columns of a row as the server sent them.
struct Columns<'r>(&'r PgRow);

impl<'r> Columns<'r> {
    fn bytes(&self, column: usize) -> sqlx::Result<Option<&'r [u8]>> {
        let value = self.0.try_get_raw(column)?;
        if value.is_null() {
            return Ok(None);
        }
        match value.format() {
            PgValueFormat::Binary => value.as_bytes().map(Some).map_err(sqlx::Error::Decode),
            PgValueFormat::Text => Err(sqlx::Error::Decode(TEXT.into())),
        }
    }

    fn text(&self, column: usize) -> sqlx::Result<Option<&'r str>> {
        let text = self.bytes(column)?.map(str::from_utf8).transpose();
        text.map_err(|error| sqlx::Error::Decode(error.into()))
    }

    fn number<const N: usize>(&self, column: usize) -> sqlx::Result<Option<[u8; N]>> {
        let number = self.bytes(column)?.map(<[u8; N]>::try_from).transpose();
        number.map_err(|error| sqlx::Error::Decode(error.into()))
    }
}

fn missing() -> sqlx::Error {
    sqlx::Error::Decode("a stored entry lacks a required column".into())
}

/// What delivering changes.
struct State<'r> {
    status: Status,
    attempts: i32,
    fence: i64,
    priority: i16,
    due_at: Option<At>,
    owner: Option<&'r str>,
    last_error: Option<&'r str>,
    last_attempt_at: Option<At>,
    max_attempts: Option<i32>,
    crashes: i16,
}

impl State<'_> {
    /// As an entry is staged that says nothing of it.
    const STAGED: Self = Self {
        status: Status::Pending,
        attempts: 0,
        fence: 0,
        priority: PRIORITY_DEFAULT,
        due_at: None,
        owner: None,
        last_error: None,
        last_attempt_at: None,
        max_attempts: None,
        crashes: 0,
    };
}

impl<'r> Decode<'r, Postgres> for State<'r> {
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        let mut fields = Fields::new(&value)?;
        Ok(Self {
            status: fields.text()?.ok_or(ENDS)?.parse()?,
            attempts: fields.number()?.map(i32::from_be_bytes).ok_or(ENDS)?,
            fence: fields.number()?.map(i64::from_be_bytes).ok_or(ENDS)?,
            priority: fields.number()?.map(i16::from_be_bytes).ok_or(ENDS)?,
            due_at: fields.number()?.map(At::from_wire),
            owner: fields.text()?,
            last_error: fields.text()?,
            last_attempt_at: fields.number()?.map(At::from_wire),
            max_attempts: fields.number()?.map(i32::from_be_bytes),
            crashes: fields.number()?.map(i16::from_be_bytes).ok_or(ENDS)?,
        })
    }
}

const TEXT: &str = "an entry is only read in the binary format";
const ENDS: &str = "the state of an entry ends too early";

/// The fields of a row value that were not read yet: each has the number of its type, its length and its bytes; one
/// that is null has a negative length.
struct Fields<'r>(&'r [u8]);

impl<'r> Fields<'r> {
    fn new(value: &PgValueRef<'r>) -> Result<Self, BoxDynError> {
        match value.format() {
            // How many there are comes first.
            PgValueFormat::Binary => Ok(Self(value.as_bytes()?.get(4..).ok_or(ENDS)?)),
            PgValueFormat::Text => Err(TEXT.into()),
        }
    }

    fn next(&mut self) -> Result<Option<&'r [u8]>, BoxDynError> {
        let (_, rest) = self.0.split_first_chunk::<4>().ok_or(ENDS)?;
        let (length, rest) = rest.split_first_chunk().ok_or(ENDS)?;
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
            self.0 = rest;
            return Ok(None);
        };
        let (field, rest) = rest.split_at_checked(length).ok_or(ENDS)?;
        self.0 = rest;
        Ok(Some(field))
    }

    fn text(&mut self) -> Result<Option<&'r str>, BoxDynError> {
        Ok(self.next()?.map(str::from_utf8).transpose()?)
    }

    fn number<const N: usize>(&mut self) -> Result<Option<[u8; N]>, BoxDynError> {
        Ok(self.next()?.map(<[u8; N]>::try_from).transpose()?)
    }
}
