//! JSON whose bytes depend on the value alone, to be hashed or compared.

use serde::Serialize;
use serde_json::Value;

use crate::error::{Error, Result};

/// Writes a value as JSON with keys sorted by code point at every depth, no insignificant whitespace, UTF-8.
///
/// Equal values give equal bytes. Whole numbers stay whole numbers, other numbers take their shortest exact
/// form, and negative zero becomes zero. Not-a-number and infinities have no JSON and become `null`.
///
/// ```
/// # use pillarbox_core::deterministic_json;
/// let value = serde_json::json!({"b": [], "a": {"z": 0, "y": ""}});
/// assert_eq!(deterministic_json(&value)?, br#"{"a":{"y":"","z":0},"b":[]}"#);
/// # Ok::<_, pillarbox_core::Error>(())
/// ```
///
/// # Errors
/// When the value cannot be written as JSON, such as a map whose keys are not texts.
pub fn deterministic_json<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    let value = serde_json::to_value(value).map_err(refused)?;
    let mut out = Vec::new();
    write(&value, &mut out)?;
    Ok(out)
}

fn refused(error: serde_json::Error) -> Error {
    Error::invalid("the value cannot be written as JSON").with_source(error)
}

fn write(value: &Value, out: &mut Vec<u8>) -> Result<()> {
    match value {
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write(item, out)?;
            }
            out.push(b']');
        }
        Value::Object(fields) => {
            // Sorted here and not left to the map: another crate's feature can make it keep insertion order.
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by(|a, b| a.0.cmp(b.0));
            out.push(b'{');
            for (index, (name, item)) in fields.into_iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                scalar(name, out)?;
                out.push(b':');
                write(item, out)?;
            }
            out.push(b'}');
        }
        Value::Number(number) if number.is_f64() && number.as_f64() == Some(0.0) => {
            out.extend_from_slice(b"0.0");
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => scalar(value, out)?,
    }
    Ok(())
}

fn scalar<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) -> Result<()> {
    serde_json::to_writer(out, value).map_err(refused)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn check(value: &(impl Serialize + ?Sized), expect: &str) {
        assert_eq!(String::from_utf8(deterministic_json(value).unwrap()).unwrap(), expect);
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "\\PC{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::vec(("\\PC{0,3}", inner), 0..5)
                    .prop_map(|fields| fields.into_iter().collect()),
            ]
        })
    }

    /// The same value with its fields put in the other way round.
    fn reversed(value: &Value) -> Value {
        match value {
            Value::Array(items) => items.iter().map(reversed).collect(),
            Value::Object(fields) => {
                fields.iter().rev().map(|(name, item)| (name.clone(), reversed(item))).collect()
            }
            other => other.clone(),
        }
    }

    #[test]
    fn keys_are_sorted_at_every_depth() {
        check(
            &json!({"b": {"d": 1, "c": [{"z": 1, "a": 2}]}, "a": 0}),
            r#"{"a":0,"b":{"c":[{"a":2,"z":1}],"d":1}}"#,
        );
        // By code point: the digit, the capital, the small letter, then what is beyond ASCII.
        check(&json!({"é": 1, "a": 1, "B": 1, "1": 1, "": 1}), r#"{"":1,"1":1,"B":1,"a":1,"é":1}"#);
        #[derive(Serialize)]
        struct Fields {
            zeta: u8,
            alpha: Option<u8>,
        }
        check(&Fields { zeta: 1, alpha: None }, r#"{"alpha":null,"zeta":1}"#);
    }

    #[test]
    fn small_values_stay_themselves() {
        check(&0, "0");
        check(&json!([]), "[]");
        check(&json!({}), "{}");
        check("", "\"\"");
        check(&json!(null), "null");
        check(&false, "false");
    }

    #[test]
    fn numbers_are_stable() {
        check(&json!([1, 1.0, -1, 1.5e300, 0.1]), "[1,1.0,-1,1.5e+300,0.1]");
        check(&json!([u64::MAX, i64::MIN]), "[18446744073709551615,-9223372036854775808]");
        check(&json!([0.0, -0.0]), "[0.0,0.0]");
    }

    #[test]
    fn text_is_utf8_and_only_escaped_where_json_must() {
        check("é\u{1F4EE}\"\\\n\u{1}", "\"é\u{1F4EE}\\\"\\\\\\n\\u0001\"");
    }

    #[test]
    fn what_has_no_json_is_refused() {
        let keys = std::collections::BTreeMap::from([(vec![1], 1)]);
        assert!(deterministic_json(&keys).unwrap_err().to_string().contains("cannot be written as JSON"));
        assert!(deterministic_json(&u128::MAX).is_err());
    }

    proptest! {
        #[test]
        fn equal_values_give_equal_bytes(value in values()) {
            let bytes = deterministic_json(&value).unwrap();
            prop_assert_eq!(&deterministic_json(&reversed(&value)).unwrap(), &bytes);
            let read: Value = serde_json::from_slice(&bytes).unwrap();
            prop_assert_eq!(&deterministic_json(&read).unwrap(), &bytes);
        }
    }
}
