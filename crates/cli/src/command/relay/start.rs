//! What a relay looks at when it starts, and tells. Nothing of it stops the relay.

use pillarbox_core::port::Severity;

use super::plan::Routes;
use crate::checkup;
use crate::context::Context;
use crate::database::Database;

/// How the store is reached through a transaction pooler.
const POOLED: &str = "pooled";

/// Tells what is wrong, each with what to do; and in one line what is well.
pub(super) async fn tell(database: &Database, routes: &Routes, context: &Context) {
    let findings = checkup::at_start(database, &context.config, routes).await;
    let well: Vec<&str> = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Ok)
        .map(|finding| finding.check)
        .collect();
    for finding in findings.iter().filter(|finding| finding.severity != Severity::Ok) {
        context.out.warn(format_args!("{}. {}", finding.reason, finding.next));
    }
    // It works, but costs a round trip a call, and whoever set up the database may not know of it.
    if database.staging.mode() == POOLED {
        for finding in findings.iter().filter(|finding| finding.check == "pooler") {
            context.out.say(&finding.reason);
        }
    }
    if !well.is_empty() {
        context.out.say(format_args!("self-test: {} well", well.join(", ")));
    }
}
