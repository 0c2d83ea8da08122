//! `pillarbox stage`

pub(crate) mod ndjson;
mod payload;
mod single;

use std::time::Duration;

use clap::Args;
use pillarbox_core::{EventId, RouteName, Timestamp, parse_duration};

use crate::context::Context;
use crate::fault::Fault;

const EXAMPLES: &str = "\
Examples:
  pillarbox stage --route orders --type order.placed --key o-1 --payload '{\"id\":1}'
  pillarbox stage --route mail --type mail.send --payload @mail.json --delay 10m --header a=b
  pillarbox stage --route media --type photo --content-type image/png --payload - < photo.png
  pillarbox stage --ndjson events.ndjson

Each line of --ndjson has {\"route\", \"type\", \"payload\"} and, if needed, key, headers, event_id, delay, \
content_type, tenant, correlation_id, causation_id, execution_id, occurred_at, priority, group_id and \
max_attempts. payload is any JSON value; for other bytes, give payload_base64 instead. All lines are staged \
in one transaction: if a line is wrong, the error names it, and nothing is staged.

If [trace] endpoint or OTEL_EXPORTER_OTLP_ENDPOINT names a receiver of OTLP over HTTP, each event has a span in \
the trace of the variable TRACEPARENT, and its context is stored with the event.";

/// What to stage.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StageArgs {
    /// The route that delivers it
    #[arg(long, required_unless_present = "ndjson")]
    route: Option<RouteName>,
    /// The event type, for example order.placed
    #[arg(long = "type", value_name = "TYPE", required_unless_present = "ndjson")]
    event_type: Option<String>,
    /// The payload: JSON as text, @FILE, or - for stdin; its bytes are stored unchanged
    #[arg(long, value_name = "JSON|@FILE|-", required_unless_present = "ndjson", allow_hyphen_values = true)]
    payload: Option<String>,
    /// The ordering key, typically the aggregate's id [default: none]
    #[arg(long)]
    key: Option<String>,
    /// A header; may be given many times [default: none]
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// The idempotency key, a UUID: staging the same id again on the same route changes nothing [default: a
    /// fresh one]
    #[arg(long, value_name = "UUID")]
    event_id: Option<EventId>,
    /// No relay delivers it before this much time has passed [default: none]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, allow_hyphen_values = true)]
    delay: Option<Duration>,
    /// The content type of the payload; only JSON is checked [default: application/json]
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// Lower goes first [default: 100]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i16>,
    /// The tenant that the event belongs to [default: none]
    #[arg(long)]
    tenant: Option<String>,
    /// The id of the business process across services [default: none]
    #[arg(long, value_name = "ID")]
    correlation_id: Option<String>,
    /// The id of the message that caused this event [default: none]
    #[arg(long, value_name = "ID")]
    causation_id: Option<String>,
    /// The id of the run that stages the event [default: none]
    #[arg(long, value_name = "ID")]
    execution_id: Option<String>,
    /// When the event happened in the business, for example 2026-01-31T12:00:00Z [default: none]
    #[arg(long, value_name = "TIME")]
    occurred_at: Option<Timestamp>,
    /// The saga or completion group [default: none]
    #[arg(long, value_name = "ID")]
    group_id: Option<String>,
    /// How many attempts this one entry has [default: the route's policy]
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// Stage every line of this file, or of stdin with -
    #[arg(long, value_name = "FILE|-", conflicts_with_all = [
        "route", "event_type", "payload", "key", "headers", "event_id", "delay", "content_type", "priority", "tenant",
        "correlation_id", "causation_id", "execution_id", "occurred_at", "group_id", "max_attempts",
    ])]
    ndjson: Option<String>,
}

fn header(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .ok_or_else(|| "write a header as NAME=VALUE".to_owned())
}

pub(crate) async fn run(args: StageArgs, context: &Context) -> Result<(), Fault> {
    match &args.ndjson {
        Some(source) => ndjson::run(source, context).await,
        None => single::run(args, context).await,
    }
}
