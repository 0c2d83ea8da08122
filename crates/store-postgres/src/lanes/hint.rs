//! Where a row was read, by which a settle finds it again: half of what deleting one costs the server is to look its
//! number up in an index.

use std::fmt::Write as _;
use std::num::NonZeroU64;

use pillarbox_core::RowHint;

/// A page of the table and a row on it, as the server sends them: four bytes and two. Rows are counted from one.
pub(super) fn from_wire([a, b, c, d, e, f]: [u8; 6]) -> RowHint {
    RowHint(NonZeroU64::new(u64::from_be_bytes([0, 0, a, b, c, d, e, f])))
}

/// Hints as an array of the server's own type, which the driver does not know: a text. `None`: one of them is not known.
pub(super) fn to_text(hints: impl Iterator<Item = RowHint>) -> Option<String> {
    let mut text = String::from("{");
    for hint in hints {
        let place = hint.0?.get();
        let comma = if text.len() > 1 { "," } else { "" };
        // Writing to a text does not fail.
        let _ = write!(text, "{comma}\"({},{})\"", place >> 16, place & 0xffff);
    }
    text.push('}');
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_goes_to_the_server_as_it_came() {
        let last = from_wire([0xff, 0xff, 0xff, 0xfe, 0x01, 0x23]);
        let first = from_wire([0, 0, 0, 0, 0, 1]);
        assert_eq!(to_text([first, last].into_iter()).unwrap(), r#"{"(0,1)","(4294967294,291)"}"#);
        assert_eq!(to_text([first, RowHint::default()].into_iter()), None);
    }
}
