//! Where a page of a list of sagas ends.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::saga::{SagaId, SagaRecord};
use crate::time::Timestamp;

/// The place of a saga in a list: when it was staged, and its id. Cursors compare as the list is ordered.
///
/// The saga need not exist any more. Prints and parses as `MICROSECONDS-ID`:
///
/// ```
/// use pillarbox_core::port::SagaCursor;
///
/// let text = "1763171696123456-0192f0c1-7b3e-7c50-8d4e-3f1a2b3c4d5e";
/// let cursor: SagaCursor = text.parse()?;
/// assert_eq!(cursor.created_at.to_string(), "2025-11-15T01:54:56.123456Z");
/// assert_eq!(cursor.to_string(), text);
/// # Ok::<_, pillarbox_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SagaCursor {
    /// When the saga was staged.
    pub created_at: Timestamp,
    /// The saga's id.
    pub id: SagaId,
}

impl SagaRecord {
    /// The saga's place in a list.
    #[must_use]
    pub const fn cursor(&self) -> SagaCursor {
        SagaCursor { created_at: self.created_at, id: self.id }
    }
}

impl fmt::Display for SagaCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.created_at.as_micros(), self.id)
    }
}

impl FromStr for SagaCursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let read = || {
            let (micros, id) = text.split_once('-')?;
            let created_at = Timestamp::from_micros(micros.parse().ok()?)?;
            Some(Self { created_at, id: id.parse().ok()? })
        };
        read().ok_or_else(|| {
            Error::invalid(
                "this is no cursor of a list of sagas. A cursor is the time of a saga in microseconds and \
                 its id, for example 1763171696123456-0192f0c1-7b3e-7c50-8d4e-3f1a2b3c4d5e. Take it from the \
                 answer with the page before",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn a_cursor_is_written_and_read() {
        for micros in [Timestamp::MIN.as_micros(), 1_763_171_696_123_456, Timestamp::MAX.as_micros()] {
            let created_at = Timestamp::from_micros(micros).unwrap();
            for id in [Uuid::nil(), Uuid::from_u128(7), Uuid::max()] {
                let cursor = SagaCursor { created_at, id: SagaId(id) };
                assert_eq!(cursor.to_string().parse::<SagaCursor>().unwrap(), cursor);
            }
        }
    }

    #[test]
    fn a_text_that_is_no_cursor_is_refused_with_what_one_looks_like() {
        let id = Uuid::from_u128(7);
        let far = format!("{}-{id}", i64::MAX);
        for text in ["", "-", "7", "7-", "7-7", &id.to_string(), &format!("-7-{id}"), &far] {
            let error = text.parse::<SagaCursor>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{text:?}");
            assert!(error.message().contains("1763171696123456-"), "{error}");
        }
    }

    #[test]
    fn cursors_are_ordered_by_time_and_then_by_id() {
        let cursor = |micros, id| SagaCursor {
            created_at: Timestamp::from_micros(micros).unwrap(),
            id: SagaId(Uuid::from_u128(id)),
        };
        assert!([cursor(1, 9), cursor(2, 1), cursor(2, 2), cursor(3, 0)].is_sorted());
    }
}
