//! Which lane an entry belongs to.

use crate::event::EventId;
use crate::port::LANES;

/// The lane number of entries that are in no lane. These are steps of sagas, which no relay by lanes may take.
pub const NO_LANE: u8 = LANES;

/// The lane of an entry: the 32-bit FNV-1a hash of its key's UTF-8 bytes, modulo [`LANES`]. If the entry has no
/// key, the 16 bytes of its event id are hashed.
///
/// A key belongs to the same lane for ever, so this function never changes. A store whose database computes the
/// lane itself may use another hash. If a store uses this hash, its library and its plain SQL must agree with it.
#[must_use]
pub fn lane_of(key: Option<&str>, event_id: EventId) -> u8 {
    let hash = match key {
        Some(key) => fnv1a(key.as_bytes()),
        None => fnv1a(event_id.0.as_bytes()),
    };
    u8::try_from(hash % u32::from(LANES)).unwrap_or(0)
}

fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use uuid::Uuid;

    use super::*;

    const NOBODY: EventId = EventId(Uuid::nil());

    #[test]
    fn the_hash_is_the_published_one() {
        for (text, hash) in [("", 0x811c_9dc5), ("a", 0xe40c_292c), ("foobar", 0xbf9c_f968)] {
            assert_eq!(fnv1a(text.as_bytes()), hash, "{text}");
        }
    }

    #[test]
    fn known_keys_have_known_lanes() {
        let longest = "x".repeat(255);
        for (key, lane) in [
            ("a", 44),
            ("o-1", 40),
            ("o-2", 33),
            ("order-7", 59),
            ("customer/42", 16),
            ("na\u{ef}ve", 43),
            ("\u{65e5}\u{672c}", 17),
            (longest.as_str(), 63),
        ] {
            assert_eq!(lane_of(Some(key), NOBODY), lane, "{key}");
        }
    }

    #[test]
    fn without_a_key_the_bytes_of_the_event_id_decide() {
        for (id, lane) in [
            ("00000000-0000-0000-0000-000000000000", 5),
            ("01900000-0000-7000-8000-000000000001", 23),
            ("01900000-0000-7000-8000-000000000002", 42),
            ("f47ac10b-58cc-4372-a567-0e02b2c3d479", 26),
        ] {
            assert_eq!(lane_of(None, id.parse().unwrap()), lane, "{id}");
        }
    }

    #[test]
    fn a_key_alone_decides_its_lane() {
        let other = EventId(Uuid::from_u128(7));
        assert_eq!(lane_of(Some("o-1"), NOBODY), lane_of(Some("o-1"), other));
    }

    #[test]
    fn keys_that_count_up_use_all_lanes_evenly() {
        let mut used: BTreeMap<u8, u32> = BTreeMap::new();
        for n in 0..10_000 {
            *used.entry(lane_of(Some(&format!("o-{n}")), NOBODY)).or_default() += 1;
        }
        assert_eq!(used.len(), usize::from(LANES));
        assert!(used.values().all(|count| (100..=200).contains(count)), "{used:?}");
    }
}
