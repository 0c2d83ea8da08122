//! Reading a row as an entry. Lenient: what cannot be read is left out and named, because one bad row must not
//! stop the others, and an operator must be able to look at it.

use pillarbox_core::limits::ATTEMPTS_MAX;
use pillarbox_core::port::shared::Columns;
pub(crate) use pillarbox_core::port::shared::parse_headers;
use pillarbox_core::{
    Entry, Error, EventId, Failure, FailureKind, Fence, Hlc, Result, RouteName, Status, Timestamp,
};
use sqlx::encode::{Encode, IsNull};
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgRow, PgTypeInfo, PgValueFormat, PgValueRef};
use sqlx::types::time::OffsetDateTime;
use sqlx::{Decode, Postgres, Row, Type};
use uuid::Uuid;

use crate::error::{Phase, classify};

/// The columns of a saga, in the order in which `saga::read` reads them.
pub(crate) const SAGA: &str = "s.id, s.name, s.route, s.subject_kind, s.subject_value, s.generation, s.status, \
    s.version, s.dead, s.due_at, s.deadline_at, s.body, s.created_at, s.updated_at, s.ended_at";

/// The columns that a claim returns, in the order in which [`decode`] reads them. What the relay knows by
/// itself (route, status, owner, lease) is not sent.
pub(crate) const CLAIMED: &str = "seq, fence, event_id, type, key, {payload_of}, content_type, headers::text, tenant, \
    correlation_id, causation_id, execution_id, occurred_at, priority, group_id, hlc, attempts, max_attempts, \
    last_error, last_attempt_at, created_at, crashes";
/// The columns that follow for operators.
pub(crate) const DELIVERY: &str = "route, status::text, due_at, owner, settled_at";

/// Seconds from 1970 to 2000, which is where PostgreSQL counts from, in microseconds.
const EPOCH_MICROS: i64 = 946_684_800_000_000;

/// A point in time on its way to or from a `timestamptz`. The driver's own types panic at `infinity`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At(i64);

impl From<Timestamp> for At {
    fn from(at: Timestamp) -> Self {
        Self(at.as_micros())
    }
}

impl At {
    /// As the server sends it.
    pub(crate) fn from_wire(bytes: [u8; 8]) -> Self {
        Self(i64::from_be_bytes(bytes).saturating_add(EPOCH_MICROS))
    }

    /// `None` outside of what we keep, such as `infinity`.
    pub(crate) fn timestamp(self) -> Option<Timestamp> {
        Timestamp::from_micros(self.0)
    }
}

impl Type<Postgres> for At {
    fn type_info() -> PgTypeInfo {
        <OffsetDateTime as Type<Postgres>>::type_info()
    }
}

impl PgHasArrayType for At {
    fn array_type_info() -> PgTypeInfo {
        <OffsetDateTime as PgHasArrayType>::array_type_info()
    }
}

impl Encode<'_, Postgres> for At {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> std::result::Result<IsNull, BoxDynError> {
        <i64 as Encode<'_, Postgres>>::encode(self.0 - EPOCH_MICROS, buffer)
    }
}

impl<'r> Decode<'r, Postgres> for At {
    fn decode(value: PgValueRef<'r>) -> std::result::Result<Self, BoxDynError> {
        match value.format() {
            PgValueFormat::Binary => Ok(Self::from_wire(value.as_bytes()?.try_into()?)),
            PgValueFormat::Text => Err("a time is only read in the binary format".into()),
        }
    }
}

/// What a row says, and why it cannot be delivered if it cannot.
pub(crate) struct Decoded {
    pub(crate) entry: Entry,
    pub(crate) undecodable: Option<Failure>,
}

/// What the claim knows without asking, or the row says.
pub(crate) struct Delivery {
    pub(crate) route: RouteName,
    pub(crate) status: Status,
    pub(crate) due_at: Option<Timestamp>,
    pub(crate) owner: Option<String>,
    pub(crate) settled_at: Option<Timestamp>,
}

/// A column whose type the statement fixes. The driver's own way compares the types for each value, which costs more
/// than reading most of them.
pub(crate) fn get<'r, T: Decode<'r, Postgres>>(row: &'r PgRow, column: usize) -> sqlx::Result<T> {
    row.try_get_unchecked(column)
}

/// Reads the columns of [`CLAIMED`].
pub(crate) fn decode(row: &PgRow, delivery: Delivery) -> sqlx::Result<Decoded> {
    let mut faults = Faults::none();
    let headers = get::<&str>(row, 7)?;
    let mut entry = Entry::new(
        get(row, 0)?,
        EventId(get(row, 2)?),
        delivery.route,
        faults.name("type", get(row, 3)?),
        faults.time("created_at", get(row, 20)?).unwrap_or(Timestamp::MIN),
    );
    entry.fence = Fence(get(row, 1)?);
    entry.key = faults.optional_name("key", get(row, 4)?);
    entry.payload = faults.or_default("payload", get(row, 5)?);
    entry.content_type = faults.name("content_type", get(row, 6)?);
    entry.headers = faults.or_default("headers", parse_headers(headers));
    entry.tenant = faults.optional_name("tenant", get(row, 8)?);
    entry.correlation_id = faults.optional_name("correlation_id", get(row, 9)?);
    entry.causation_id = faults.optional_name("causation_id", get(row, 10)?);
    entry.execution_id = faults.optional_name("execution_id", get(row, 11)?);
    entry.occurred_at = faults.time("occurred_at", get(row, 12)?);
    entry.priority = get(row, 13)?;
    entry.group_id = faults.optional_name("group_id", get(row, 14)?);
    entry.hlc = faults.or_default("hlc", get::<Option<i64>>(row, 15)?.map(Hlc::from_raw).transpose().ok());
    entry.attempts = faults.or_default("attempts", u32::try_from(get::<i32>(row, 16)?).ok());
    entry.max_attempts = faults.or_default(
        "max_attempts",
        get::<Option<i32>>(row, 17)?.map(budget).map_or(Some(None), |budget| budget.map(Some)),
    );
    entry.last_error = get::<Option<&str>>(row, 18)?.map(Failure::parse);
    entry.last_attempt_at = faults.time("last_attempt_at", get(row, 19)?);
    entry.crashes = faults.or_default("crashes", u32::try_from(get::<i16>(row, 21)?).ok());
    entry.status = delivery.status;
    entry.due_at = delivery.due_at;
    entry.owner = delivery.owner;
    entry.settled_at = delivery.settled_at;
    Ok(Decoded { entry, undecodable: faults.first() })
}

/// How many columns [`CLAIMED`] and [`DELIVERY`] have.
pub(crate) const WHOLE_COLUMNS: usize = 27;

/// Reads the columns of [`CLAIMED`] and [`DELIVERY`].
pub(crate) fn decode_whole(row: &PgRow) -> sqlx::Result<Entry> {
    let corrupt = |error: Error| sqlx::Error::Decode(error.message().to_owned().into());
    let delivery = Delivery {
        route: RouteName::new(row.try_get::<String, _>(22)?).map_err(corrupt)?,
        status: row.try_get::<&str, _>(23)?.parse().map_err(corrupt)?,
        due_at: row.try_get::<Option<At>, _>(24)?.and_then(At::timestamp),
        owner: row.try_get(25)?,
        settled_at: row.try_get::<Option<At>, _>(26)?.and_then(At::timestamp),
    };
    decode(row, delivery).map(|decoded| decoded.entry)
}

/// The columns of an answer that is not on the way of every entry, read by the types that they have.
pub(crate) struct Cells<'r> {
    row: &'r PgRow,
    column: usize,
}

impl<'r> Cells<'r> {
    pub(crate) fn of(row: &'r PgRow) -> Self {
        Self::from(row, 0)
    }

    /// From this column on.
    pub(crate) fn from(row: &'r PgRow, column: usize) -> Self {
        Self { row, column }
    }

    fn next<T: Decode<'r, Postgres> + Type<Postgres>>(&mut self) -> Result<T> {
        self.column += 1;
        self.row.try_get(self.column - 1).map_err(|error| classify(error, Phase::Before))
    }
}

impl Columns for Cells<'_> {
    fn optional_text(&mut self) -> Result<Option<String>> {
        self.next()
    }

    fn optional_number(&mut self) -> Result<Option<i64>> {
        Ok(self.next::<Option<Whole>>()?.map(|number| number.0))
    }

    fn flag(&mut self) -> Result<bool> {
        self.next()
    }

    fn time(&mut self) -> Result<Option<Timestamp>> {
        Ok(self.next::<Option<At>>()?.and_then(At::timestamp))
    }

    fn event_id(&mut self) -> Result<Option<EventId>> {
        Ok(self.next::<Option<Uuid>>()?.map(EventId))
    }
}

/// A whole number of any size.
struct Whole(i64);

impl Type<Postgres> for Whole {
    fn type_info() -> PgTypeInfo {
        <i64 as Type<Postgres>>::type_info()
    }

    fn compatible(info: &PgTypeInfo) -> bool {
        [<i64 as Type<Postgres>>::type_info(), <i32 as Type<Postgres>>::type_info()].contains(info)
    }
}

impl<'r> Decode<'r, Postgres> for Whole {
    fn decode(value: PgValueRef<'r>) -> std::result::Result<Self, BoxDynError> {
        Ok(Self(match value.as_bytes()? {
            small if small.len() == 4 => i32::from_be_bytes(small.try_into()?).into(),
            large => i64::from_be_bytes(large.try_into()?),
        }))
    }
}

/// `None` when no entry can have that many attempts.
pub(crate) fn budget(attempts: i32) -> Option<u32> {
    u32::try_from(attempts).ok().filter(|attempts| (1..=ATTEMPTS_MAX).contains(attempts))
}

/// The first thing of a row that cannot be read.
pub(crate) struct Faults(Option<Failure>);

impl Faults {
    pub(crate) fn none() -> Self {
        Self(None)
    }

    pub(crate) fn first(self) -> Option<Failure> {
        self.0
    }

    pub(crate) fn or_default<T: Default>(&mut self, column: &str, value: Option<T>) -> T {
        value.unwrap_or_else(|| {
            // The column's name and nothing of what is in it.
            let text = format!("the column {column} cannot be read");
            self.0.get_or_insert_with(|| Failure::new(FailureKind::Undecodable, column, text));
            T::default()
        })
    }

    /// The table refuses what is too long, and not what is empty.
    pub(crate) fn name(&mut self, column: &str, text: String) -> String {
        if text.is_empty() { self.or_default(column, None) } else { text }
    }

    pub(crate) fn optional_name(&mut self, column: &str, text: Option<String>) -> Option<String> {
        text.map(|text| self.name(column, text))
    }

    pub(crate) fn time(&mut self, column: &str, at: Option<At>) -> Option<Timestamp> {
        match at.map(At::timestamp) {
            None => None,
            Some(Some(at)) => Some(at),
            Some(None) => self.or_default(column, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_fault_is_the_reason() {
        let mut faults = Faults(None);
        assert_eq!(faults.or_default::<u32>("headers", None), 0);
        assert_eq!(faults.time("occurred_at", Some(At(i64::MAX))), None);
        let failure = faults.0.unwrap();
        assert_eq!((failure.kind, failure.code()), (FailureKind::Undecodable, "headers"));
    }
}
