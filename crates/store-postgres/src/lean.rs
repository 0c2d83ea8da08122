//! The values of one event that says no more than most do, each as its column takes it.

use pillarbox_core::port::shared::headers_json;
use pillarbox_core::{CONTENT_TYPE_DEFAULT, NewEntry, PRIORITY_DEFAULT, Result};
use sqlx::encode::{Encode, IsNull};
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgArguments, PgTypeInfo};
use sqlx::{Postgres, Type};

use crate::bind::Bind;

/// Whether `stage_lean.sql` has a place for everything that this entry says.
pub(crate) fn is_lean(entry: &NewEntry) -> bool {
    let event = &entry.event;
    let context = [&event.tenant, &event.correlation_id, &event.causation_id, &event.execution_id];
    context.into_iter().chain([&event.group_id]).all(Option::is_none)
        && event.occurred_at.is_none()
        && event.max_attempts.is_none()
        && entry.delay_micros().is_none()
        && event.priority == PRIORITY_DEFAULT
        && event.content_type == CONTENT_TYPE_DEFAULT
}

/// The values of `stage_lean.sql`, in its order.
pub(crate) fn values(entry: &NewEntry) -> Result<PgArguments> {
    let event = &entry.event;
    let headers = headers_json(&event.headers)?;
    Bind::new()
        .value(entry.event_id.0)
        .text(entry.route.as_str())
        .text(&event.event_type)
        .value(event.key.as_deref())
        .value(event.payload.as_slice())
        .value((!event.headers.is_empty()).then_some(Jsonb(&headers)))
        .number(entry.hlc.raw())
        .done()
}

/// A text that is JSON, on its way to a `jsonb`.
struct Jsonb<'a>(&'a str);

impl Type<Postgres> for Jsonb<'_> {
    fn type_info() -> PgTypeInfo {
        // The same on every server: the types that come with it have fixed numbers.
        PgTypeInfo::with_oid(Oid(3802))
    }
}

impl<'q> Encode<'q, Postgres> for Jsonb<'_> {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> std::result::Result<IsNull, BoxDynError> {
        // The version of the format, then the text.
        buffer.push(1);
        buffer.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }
}
