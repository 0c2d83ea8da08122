//! Staging one event from the command line.

use pillarbox_core::{Event, EventId, EventLimits};
use serde::Serialize;

use super::{StageArgs, payload};
use crate::context::Context;
use crate::fault::Fault;

#[derive(Serialize)]
struct StagedJson {
    event_id: EventId,
    outcome: &'static str,
}

pub(crate) async fn run(args: StageArgs, context: &Context) -> Result<(), Fault> {
    let (Some(route), Some(event_type), Some(payload)) = (args.route, args.event_type, args.payload) else {
        return Err(Fault::usage("give --route, --type and --payload, or --ndjson"));
    };
    let mut event = Event::new(event_type, payload::read(&payload)?);
    event.content_type = args.content_type.unwrap_or(event.content_type);
    event.priority = args.priority.unwrap_or(event.priority);
    event.headers.extend(args.headers);
    event.id = args.event_id;
    event.key = args.key;
    event.delay = args.delay;
    event.tenant = args.tenant;
    event.correlation_id = args.correlation_id;
    event.causation_id = args.causation_id;
    event.execution_id = args.execution_id;
    event.occurred_at = args.occurred_at;
    event.group_id = args.group_id;
    event.max_attempts = args.max_attempts;
    event.check(&EventLimits::default())?;
    context.check_order(&route, &event)?;
    payload::check(&event.payload, &event.content_type)?;

    let database = context.open().await?;
    let mut tx = database.staging.begin().await?;
    let staged = tx.stage_all(&database.staging.outbox(&route), vec![event]).await?;
    tx.commit().await?;
    database.staging.close().await;

    let staged = staged.first().ok_or_else(|| Fault::failed("the store did not say what it staged"))?;
    let outcome = if staged.is_duplicate() { "duplicate" } else { "staged" };
    if context.out.json {
        return context.out.json(&StagedJson { event_id: staged.event_id(), outcome });
    }
    context.out.data(staged.event_id())?;
    if staged.is_duplicate() {
        context.out.say(format_args!("duplicate: route {route} already has an entry with this event id"));
    }
    Ok(())
}
