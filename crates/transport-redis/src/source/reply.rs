//! The server's answers as entries.
//!
//! The client's own types for them refuse a whole answer when one name in it is not UTF-8, and a single entry of
//! someone else would then keep all others from arriving.

use redis::Value;

use crate::binding::Fields;

/// An entry of a stream.
#[derive(Debug, PartialEq)]
pub(crate) struct Read {
    pub(crate) id: String,
    pub(crate) fields: Fields,
}

/// The entries of all streams in an answer to XREADGROUP; none when the wait was over.
pub(super) fn streams(answer: Value) -> Vec<Read> {
    match answer {
        Value::Map(streams) => streams.into_iter().flat_map(|(_, read)| entries(read)).collect(),
        Value::Array(streams) => streams.into_iter().flat_map(|stream| entries(second(stream))).collect(),
        _ => Vec::new(),
    }
}

/// The entries in a list of them. One that was deleted meanwhile has no fields, and is left out.
pub(crate) fn entries(answer: Value) -> Vec<Read> {
    list(answer).into_iter().filter_map(entry).collect()
}

fn entry(entry: Value) -> Option<Read> {
    let mut parts = list(entry).into_iter();
    let id = text(parts.next()?)?;
    let fields = match parts.next()? {
        Value::Map(fields) => {
            fields.into_iter().filter_map(|(name, value)| Some((bytes(name)?, bytes(value)?))).collect()
        }
        Value::Array(flat) => pairs(flat),
        _ => return None,
    };
    Some(Read { id, fields })
}

fn pairs(flat: Vec<Value>) -> Fields {
    let mut fields = Fields::with_capacity(flat.len() / 2);
    let mut flat = flat.into_iter();
    while let (Some(name), Some(value)) = (flat.next(), flat.next()) {
        fields.extend(bytes(name).zip(bytes(value)));
    }
    fields
}

/// Where to go on, and the entries that were taken over, in an answer to XAUTOCLAIM.
pub(super) fn claimed(answer: Value) -> Option<(String, Vec<Read>)> {
    let mut parts = list(answer).into_iter();
    Some((text(parts.next()?)?, entries(parts.next()?)))
}

/// Ids and counts of deliveries in an answer to XPENDING with a range.
pub(super) fn pending(answer: Value) -> Vec<(String, u32)> {
    let row = |row: Value| {
        let mut parts = list(row).into_iter();
        let id = text(parts.next()?)?;
        let Value::Int(count) = parts.nth(2)? else { return None };
        Some((id, u32::try_from(count).unwrap_or(u32::MAX)))
    };
    list(answer).into_iter().filter_map(row).collect()
}

pub(crate) fn list(value: Value) -> Vec<Value> {
    match value {
        Value::Array(values) => values,
        _ => Vec::new(),
    }
}

fn second(value: Value) -> Value {
    list(value).into_iter().nth(1).unwrap_or(Value::Nil)
}

fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.into_bytes()),
        _ => None,
    }
}

pub(crate) fn text(value: Value) -> Option<String> {
    bytes(value).and_then(|bytes| String::from_utf8(bytes).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    fn one() -> Value {
        Value::Array(vec![
            bulk("1-0"),
            Value::Array(vec![bulk("a"), bulk("b"), Value::BulkString(vec![0xff]), bulk("c")]),
        ])
    }

    fn read() -> Read {
        let fields = vec![(b"a".to_vec(), b"b".to_vec()), (vec![0xff], b"c".to_vec())];
        Read { id: "1-0".into(), fields }
    }

    #[test]
    fn both_protocols_say_the_same() {
        let new = Value::Map(vec![(bulk("orders"), Value::Array(vec![one()]))]);
        let old = Value::Array(vec![Value::Array(vec![bulk("orders"), Value::Array(vec![one()])])]);
        assert_eq!(streams(new), [read()]);
        assert_eq!(streams(old), [read()]);
        assert_eq!(streams(Value::Nil), []);
    }

    #[test]
    fn what_was_deleted_is_left_out() {
        let gone = Value::Array(vec![bulk("2-0"), Value::Nil]);
        let answer = Value::Array(vec![
            bulk("3-0"),
            Value::Array(vec![Value::Nil, gone, one()]),
            Value::Array(vec![]),
        ]);
        assert_eq!(claimed(answer), Some(("3-0".into(), vec![read()])));
    }

    #[test]
    fn deliveries_are_counted() {
        let row = Value::Array(vec![bulk("1-0"), bulk("billing-1"), Value::Int(7), Value::Int(3)]);
        assert_eq!(pending(Value::Array(vec![row])), [("1-0".to_owned(), 3)]);
    }

    #[test]
    fn nonsense_is_nothing() {
        assert_eq!((claimed(Value::Nil), entries(Value::Int(1))), (None, vec![]));
        assert_eq!(pending(Value::Array(vec![Value::Int(1), Value::Array(vec![bulk("1-0")])])), []);
    }
}
