//! The identity of a saga, and the idempotency keys of its steps.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::{Builder, Uuid};

use crate::error::{Error, Result};
use crate::event::EventId;

use super::states::Direction;

/// The identity of a saga. It is the `group_id` of the saga's entries. Another saga on the same subject has another
/// id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SagaId(pub Uuid);

impl fmt::Display for SagaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(f)
    }
}

impl FromStr for SagaId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Uuid::try_parse(text)
            .map(Self)
            .map_err(|_| Error::invalid(format!("{text:?} is not a saga id: a UUID is expected")))
    }
}

/// The event id of a step, which is its idempotency key. The same arguments always give the same key.
///
/// It is a UUID of version 8, made from the saga's id, the direction and the step's name by the 128-bit FNV-1a
/// hash. A saga's id is fresh, and so are all of its keys.
#[must_use]
pub fn step_key(saga: SagaId, step: &str, direction: Direction) -> EventId {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let direction = [direction as u8];
    let bytes = saga.0.as_bytes().iter().chain(&direction).chain(step.as_bytes());
    let hash = bytes.fold(OFFSET, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME));
    EventId(Builder::from_custom_bytes(hash.to_be_bytes()).into_uuid())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn keys_are_the_same_every_time_and_differ_by_saga_step_and_direction() {
        let mut keys = BTreeSet::new();
        for saga in 0..200 {
            let saga = SagaId(Uuid::from_u128(saga));
            for step in ["a", "b", "aa", "ab"] {
                for direction in [Direction::Forward, Direction::Compensation] {
                    let key = step_key(saga, step, direction);
                    assert_eq!(key, step_key(saga, step, direction));
                    assert_eq!(key.0.get_version_num(), 8);
                    assert!(keys.insert(key), "{saga} {step} {direction:?}");
                }
            }
        }
    }

    #[test]
    fn a_key_never_changes_between_versions() {
        let key = step_key(SagaId(Uuid::from_u128(7)), "crm", Direction::Forward);
        assert_eq!(key.to_string(), "8a62c225-1cdc-80a3-9b86-010fb1916164");
    }
}
