//! Where a payload comes from, and whether it is what it says it is.

use std::io::Read;

use pillarbox_core::limits::PAYLOAD_BYTES_DEFAULT;
use serde::de::IgnoredAny;

use crate::fault::Fault;
use crate::output::is_json_type;

/// The bytes that `--payload` means: the text itself, a file, or stdin.
pub(crate) fn read(argument: &str) -> Result<Vec<u8>, Fault> {
    let cannot = |what: &str, error: std::io::Error| Fault::usage(format!("cannot read {what}: {error}"));
    match argument.strip_prefix('@') {
        Some("") => Err(Fault::usage("--payload @ needs the name of a file, for example @order.json")),
        Some(path) => {
            let file = std::fs::File::open(path).map_err(|error| cannot(path, error))?;
            bounded(file).map_err(|error| cannot(path, error))
        }
        None if argument == "-" => bounded(std::io::stdin().lock()).map_err(|error| cannot("stdin", error)),
        None => Ok(argument.as_bytes().to_vec()),
    }
}

// One byte over the limit is enough for the check that follows to refuse it, whatever the size of the source.
fn bounded(source: impl Read) -> std::io::Result<Vec<u8>> {
    let limit = u64::try_from(PAYLOAD_BYTES_DEFAULT).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    source.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Refuses what is not JSON under a content type that promises it.
pub(crate) fn check(payload: &[u8], content_type: &str) -> Result<(), Fault> {
    if !is_json_type(content_type) || payload.len() > PAYLOAD_BYTES_DEFAULT {
        return Ok(());
    }
    serde_json::from_slice::<IgnoredAny>(payload).map(|_| ()).map_err(|error| {
        // serde_json's text names what was expected and where; it does not quote the payload.
        Fault::usage(format!(
            "the payload is not JSON: {error}. For other bytes, give their type with --content-type",
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_must_be_json_unless_it_says_otherwise() {
        for (payload, content_type, accepted) in [
            ("{\"id\":1}", "application/json", true),
            ("0", "application/json", true),
            ("\"\"", "application/json", true),
            ("{id:1}", "application/json", false),
            ("", "application/json", false),
            ("{} {}", "application/json", false),
            ("{id:1}", "text/plain", true),
            ("", "application/octet-stream", true),
        ] {
            assert_eq!(check(payload.as_bytes(), content_type).is_ok(), accepted, "{payload} {content_type}");
        }
    }
}
