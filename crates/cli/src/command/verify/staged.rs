//! `--staged FILE`: what the application itself has written down.

use std::collections::BTreeMap;

use pillarbox_core::{EventId, RouteName};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::ledger::{Ledger, Moment, State, Truth};
use crate::command::stage::ndjson::reader::Lines;
use crate::fault::Fault;
use crate::output::{Output, Progress};

/// A line of `stage --ndjson`, of which the id must be there, and the moments that only a verification knows. Any
/// other field is refused, so that a misspelt one is not lost.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LedgerLine {
    route: RouteName,
    event_id: EventId,
    key: Option<String>,
    staged_at: Option<i64>,
    committed_at: Option<i64>,
    #[serde(rename = "type")]
    _event_type: Option<IgnoredAny>,
    #[serde(rename = "payload")]
    _payload: Option<IgnoredAny>,
    #[serde(rename = "payload_base64")]
    _payload_base64: Option<IgnoredAny>,
    #[serde(rename = "headers")]
    _headers: Option<IgnoredAny>,
    #[serde(rename = "delay")]
    _delay: Option<IgnoredAny>,
    #[serde(rename = "content_type")]
    _content_type: Option<IgnoredAny>,
    #[serde(rename = "tenant")]
    _tenant: Option<IgnoredAny>,
    #[serde(rename = "correlation_id")]
    _correlation_id: Option<IgnoredAny>,
    #[serde(rename = "causation_id")]
    _causation_id: Option<IgnoredAny>,
    #[serde(rename = "execution_id")]
    _execution_id: Option<IgnoredAny>,
    #[serde(rename = "occurred_at")]
    _occurred_at: Option<IgnoredAny>,
    #[serde(rename = "priority")]
    _priority: Option<IgnoredAny>,
    #[serde(rename = "group_id")]
    _group_id: Option<IgnoredAny>,
    #[serde(rename = "max_attempts")]
    _max_attempts: Option<IgnoredAny>,
}

/// How the lines say in which order they were staged: all in the same way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// By standing one after the other.
    ByLine,
    /// By the moments in them.
    ByMoment,
}

/// Reads the lines of these routes, and of others that they are theirs.
pub(crate) fn read(
    source: &str,
    ledgers: &mut BTreeMap<RouteName, Ledger>,
    out: Output,
) -> Result<(), Fault> {
    let mut lines = Lines::open(source)?;
    let progress = Progress::bytes(out, "reading the staged events", lines.bytes());
    let mut order = None;
    ledgers.values_mut().for_each(|ledger| *ledger = Ledger::new(Truth::File));
    while let Some((number, text)) = lines.next()? {
        let at = |fault: Fault| fault.context(&format!("line {number}"));
        let line: LedgerLine =
            serde_json::from_str(text).map_err(|error| at(Fault::usage(error.to_string())))?;
        let (ordered, moment) = moment(&line, number).map_err(at)?;
        if *order.get_or_insert(ordered) != ordered {
            let why = "either all lines have staged_at and committed_at, or none has";
            return Err(at(Fault::usage(why)));
        }
        for (route, ledger) in ledgers.iter_mut() {
            if *route == line.route {
                ledger.stage(line.event_id, line.key.as_deref(), moment, State::Done);
            } else {
                ledger.stage_elsewhere(line.event_id);
            }
        }
        progress.set(lines.bytes_read());
    }
    Ok(())
}

fn moment(line: &LedgerLine, number: u64) -> Result<(Order, Moment), Fault> {
    let number = i64::try_from(number).unwrap_or(i64::MAX);
    match (line.staged_at, line.committed_at) {
        (None, None) => Ok((Order::ByLine, Moment::in_turn(number))),
        (Some(staged), Some(committed)) if staged < committed => {
            Ok((Order::ByMoment, Moment::between(staged, committed, number)))
        }
        (Some(_), Some(_)) => Err(Fault::usage("staged_at must be less than committed_at")),
        _ => Err(Fault::usage("give staged_at and committed_at together")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<BTreeMap<RouteName, Ledger>, Fault> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("staged.ndjson");
        std::fs::write(&file, text).unwrap();
        let mut ledgers = BTreeMap::from([(RouteName::new("r").unwrap(), Ledger::new(Truth::Table))]);
        read(file.to_str().unwrap(), &mut ledgers, Output { json: true, quiet: true })?;
        Ok(ledgers)
    }

    const ID: &str = "018f3c2e-0000-7000-8000-000000000001";

    fn refused(text: &str, with: &str) {
        let fault = read_text(text).map(drop).unwrap_err();
        assert_eq!(fault.exit_code(), 2);
        assert!(fault.message().unwrap().contains(with), "{fault:?}");
    }

    #[test]
    fn a_line_of_stage_is_a_line_of_verify() {
        let line = format!(
            "{{\"route\":\"r\",\"type\":\"t\",\"payload\":[1],\"key\":\"k\",\"event_id\":\"{ID}\",\"delay\":\"5s\"}}\n"
        );
        let other = line.replace("\"r\"", "\"other\"");
        // The same id again is the same entry.
        let ledgers = read_text(&format!("{line}\n{other}{line}")).unwrap();
        let findings = ledgers.values().next().unwrap().findings(false);
        assert_eq!((findings.staged, findings.lost.len()), (1, 1));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        refused("{}", "line 1: missing field `route`");
        refused(r#"{"route":"r"}"#, "line 1: missing field `event_id`");
        refused(
            &format!("\n{{\"route\":\"r\",\"event_id\":\"{ID}\",\"kee\":1}}"),
            "line 2: unknown field `kee`",
        );
        refused(r#"{"route":"r","event_id":"7"}"#, "line 1");
        let with = |more: &str| format!("{{\"route\":\"r\",\"event_id\":\"{ID}\"{more}}}\n");
        refused(&with(",\"staged_at\":1"), "give staged_at and committed_at together");
        refused(&with(",\"staged_at\":2,\"committed_at\":2"), "must be less");
        refused(&format!("{}{}", with(""), with(",\"staged_at\":1,\"committed_at\":2")), "line 2");
    }
}
