//! JSON whose bytes depend on the value alone, for whoever hashes or compares it.

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
/// # pillarbox_core::Result::Ok(())
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
