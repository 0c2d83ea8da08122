//! What a child may answer, one JSON object a line.

use std::time::Duration;

use pillarbox_core::EventId;
use pillarbox_engine::sink::HandlerError;
use serde::Deserialize;

/// Longest answer, in bytes.
pub(super) const ANSWER_BYTES_MAX: u64 = 64 * 1024;
/// Longest wait that a child may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    id: String,
    ok: Option<bool>,
    error: Option<String>,
    /// In seconds.
    retry_after: Option<f64>,
    reject: Option<String>,
}

/// What became of the event, or why the line is not an answer.
pub(super) fn read(line: &[u8], asked: EventId) -> Result<Result<(), HandlerError>, &'static str> {
    let line: Answer =
        serde_json::from_slice(line).map_err(|_| "it is not a JSON object of the known fields")?;
    if line.id.parse::<EventId>().ok() != Some(asked) {
        return Err("its id is not the id of the event that the child was given");
    }
    let error = line.error.unwrap_or_default();
    let wait = match line.retry_after {
        None => None,
        Some(seconds) => {
            let wait = Duration::try_from_secs_f64(seconds)
                .map_err(|_| "its retry_after is not a number of seconds")?;
            Some(wait.min(RETRY_AFTER_MAX))
        }
    };
    match (line.ok, line.reject, wait) {
        (Some(true), None, None) => Ok(Ok(())),
        (None | Some(false), Some(reason), None) => Ok(Err(HandlerError::reject("rejected", reason))),
        (Some(false), None, None) => Ok(Err(HandlerError::retry("failed", error))),
        (None | Some(false), None, Some(wait)) => Ok(Err(HandlerError::retry_after(wait, "failed", error))),
        _ => Err("it needs one of \"ok\": true, \"ok\": false, \"retry_after\" and \"reject\""),
    }
}

#[cfg(test)]
mod tests {
    use pillarbox_core::Outcome;

    use super::*;

    const ID: &str = "01932c07-a9f0-7000-8000-000000000001";

    fn answer(fields: &str) -> Result<Result<(), HandlerError>, &'static str> {
        read(format!("{{\"id\": \"{ID}\"{fields}}}\n").as_bytes(), ID.parse().unwrap())
    }

    fn outcome(fields: &str) -> Outcome {
        answer(fields).unwrap().unwrap_err().into()
    }

    #[test]
    fn an_answer_says_done_again_or_never() {
        assert!(matches!(answer(", \"ok\": true"), Ok(Ok(()))));
        assert!(matches!(outcome(", \"ok\": false"), Outcome::Failed { retry_after: None, .. }));
        let later = outcome(", \"ok\": false, \"error\": \"busy\", \"retry_after\": 1.5");
        let Outcome::Failed { retry_after: Some(wait), failure, .. } = later else { panic!("{later:?}") };
        assert!(wait == Duration::from_millis(1500) && failure.to_string().contains("busy"));
    }

    #[test]
    fn what_is_rejected_has_its_reason() {
        let outcome = outcome(", \"reject\": \"no such order\"");
        assert!(
            matches!(&outcome, Outcome::Rejected(failure) if failure.to_string().contains("no such order"))
        );
    }

    #[test]
    fn anything_else_is_no_answer() {
        for fields in [
            "",
            ", \"ok\": \"yes\"",
            ", \"ok\": true, \"reject\": \"x\"",
            ", \"retry_after\": -1",
            ", \"retry_after\": 1e300",
            ", \"surprise\": 1",
        ] {
            assert!(answer(fields).is_err(), "{fields}");
        }
        let asked: EventId = ID.parse().unwrap();
        for line in [&b"ready\n"[..], b"{\"ok\": true}", b"[]", b"{\"id\": \"7\", \"ok\": true}", b"\xff"] {
            assert!(read(line, asked).is_err());
        }
    }
}
