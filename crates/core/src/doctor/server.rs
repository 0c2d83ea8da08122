//! Checks of the server: its tables, clock, connections and transactions.

use std::time::Duration;

use crate::duration::format_duration;
use crate::port::{Connections, Finding, OpenTransaction, SchemaState};
use crate::time::Timestamp;

/// Clocks that differ by more are worth a warning: ages and waits in metrics are wrong by as much.
const CLOCKS_WARN: Duration = Duration::from_secs(1);
/// Clocks that differ by more are a problem: events are stamped with times that others refuse.
const CLOCKS_MAX: Duration = Duration::from_secs(60);
/// Of the server's connections, in percent.
const CONNECTIONS_WARN: u64 = 80;
const CONNECTIONS_MAX: u64 = 95;

pub(super) fn schema(state: &SchemaState) -> Vec<Finding> {
    match (state.check(), state) {
        (Err(error), state) => vec![Finding::problem("schema", error.to_string(), mends(state))],
        (Ok(()), SchemaState::Ready { warnings }) if !warnings.is_empty() => {
            let finding =
                |warning: &String| Finding::problem("schema", warning.clone(), "Run `pillarbox migrate`.");
            warnings.iter().map(finding).collect()
        }
        (Ok(()), _) => vec![Finding::ok("schema", "the tables are as this version needs them")],
    }
}

/// What to do about tables that this version cannot work with.
fn mends(state: &SchemaState) -> &'static str {
    match state {
        SchemaState::Newer { .. } => "Install the version that upgraded the tables, or a later one.",
        SchemaState::Damaged { .. } => {
            "Restore the tables. `pillarbox migrate --plan` prints how they should be."
        }
        _ => "Run `pillarbox migrate`.",
    }
}

pub(super) fn clock((database, here): (Timestamp, Timestamp)) -> Finding {
    let (difference, behind) =
        if here > database { (here.since(database), "behind") } else { (database.since(here), "ahead of") };
    let shown =
        format_duration(Duration::from_millis(u64::try_from(difference.as_millis()).unwrap_or(u64::MAX)));
    let reason = format!("the database's clock is {shown} {behind} the clock of this machine");
    let next = "Synchronise both clocks, for instance with chrony. Leases go by the database's clock alone; \
                clock stamps and the ages in metrics go by both.";
    if difference > CLOCKS_MAX {
        Finding::problem("clock", reason, next)
    } else if difference > CLOCKS_WARN {
        Finding::warning("clock", reason, next)
    } else {
        Finding::ok("clock", reason)
    }
}

pub(super) fn connections(connections: Connections) -> Finding {
    let Connections { max, used, ours_max } = connections;
    let reason =
        format!("{used} of {max} connections of the server are used; this process opens at most {ours_max}");
    let next =
        "Raise the server's limit, put a pooler in front of it, or let applications hold fewer connections.";
    let percent = used.saturating_mul(100) / max.max(1);
    if percent >= CONNECTIONS_MAX {
        Finding::problem("connections", reason, next)
    } else if percent >= CONNECTIONS_WARN || max.saturating_sub(used) < ours_max {
        Finding::warning("connections", reason, next)
    } else {
        Finding::ok("connections", reason)
    }
}

pub(super) fn transactions(open: &[OpenTransaction]) -> Vec<Finding> {
    if open.is_empty() {
        return vec![Finding::ok("transactions", "no transaction has been open for long")];
    }
    let finding = |transaction: &OpenTransaction| {
        let age = format_duration(Duration::from_secs(transaction.age.as_secs()));
        Finding::problem(
            "transactions",
            format!("a transaction has been open for {age}, held by {}", transaction.holder),
            "The database cannot clean up rows that this transaction might still read, so claims get slower \
             and tables grow. End the transaction, or let its owner commit sooner.",
        )
    };
    open.iter().map(finding).collect()
}
