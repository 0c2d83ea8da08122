//! Staging many events from NDJSON, all of them or none.

mod line;
pub(crate) mod reader;

use std::collections::BTreeMap;

use pillarbox_core::{Event, RouteName};
use serde::Serialize;

use crate::context::Context;
use crate::database::StagingTx;
use crate::fault::Fault;
use crate::output::Progress;

use reader::Lines;

/// Lines that are staged by one call.
const BATCH: usize = 1000;

#[derive(Default, Serialize)]
struct StagedJson {
    staged: u64,
    duplicates: u64,
}

pub(crate) async fn run(source: &str, context: &Context) -> Result<(), Fault> {
    let mut lines = Lines::open(source)?;
    let database = context.open().await?;
    let progress = Progress::bytes(context.out, "staging", lines.bytes());
    let mut counts = StagedJson::default();
    let mut tx: Option<StagingTx> = None;
    loop {
        // The lines are read before the transaction begins, and checked before they are staged: a slow or
        // broken source holds no lock for longer than it must.
        let batch = read_batch(&mut lines, context)?;
        if batch.is_empty() {
            break;
        }
        let tx = match &mut tx {
            Some(tx) => tx,
            None => tx.insert(database.staging.begin().await?),
        };
        for (route, events) in batch {
            for staged in tx.stage_all(&database.staging.outbox(&route), events).await? {
                *(if staged.is_duplicate() { &mut counts.duplicates } else { &mut counts.staged }) += 1;
            }
        }
        progress.set(lines.bytes_read());
    }
    if let Some(tx) = tx {
        tx.commit().await?;
    }
    drop(progress);
    database.staging.close().await;
    if context.out.json {
        return context.out.json(&counts);
    }
    context.out.data(format_args!("{} staged, {} duplicates", counts.staged, counts.duplicates))
}

// Grouped by route, since one call stages for one route; the order inside a route is the order of the lines.
fn read_batch(lines: &mut Lines, context: &Context) -> Result<BTreeMap<RouteName, Vec<Event>>, Fault> {
    let mut batch: BTreeMap<RouteName, Vec<Event>> = BTreeMap::new();
    for _ in 0..BATCH {
        let nothing_staged = |fault: Fault| fault.and("nothing was staged");
        let Some((number, text)) = lines.next().map_err(nothing_staged)? else { break };
        let parsed = line::parse(text).and_then(|(route, event)| {
            context.check_order(&route, &event)?;
            Ok((route, event))
        });
        let parsed = parsed.map_err(|fault| fault.context(&format!("line {number}")));
        let (route, event) = parsed.map_err(nothing_staged)?;
        batch.entry(route).or_default().push(event);
    }
    Ok(batch)
}
