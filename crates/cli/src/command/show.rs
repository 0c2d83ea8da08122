//! `pillarbox show ID`

use clap::Args;
use pillarbox_core::EventId;
use pillarbox_core::port::Story;

use crate::context::Context;
use crate::fault::Fault;
use crate::output::{self, COLUMNS, EntryJson, StoryJson};

const EXAMPLES: &str = "\
Examples:
  pillarbox show 0192f0c1-7b3e-7c50-8d4e-3f1a2b3c4d5e
  pillarbox show 0192f0c1-7b3e-7c50-8d4e-3f1a2b3c4d5e --json | jq .audit";

/// Which event.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ShowArgs {
    /// The event id; its entry on every route is shown
    #[arg(value_name = "ID")]
    id: EventId,
}

pub(crate) async fn run(args: &ShowArgs, context: &Context) -> Result<(), Fault> {
    let database = context.open().await?;
    let stories = database.admin.show(args.id).await?;
    database.staging.close().await;
    if stories.is_empty() {
        return Err(Fault::failed(format!(
            "no route has an entry for event {}; `pillarbox list` lists the entries",
            args.id
        )));
    }
    for (index, story) in stories.iter().enumerate() {
        if context.out.json {
            context.out.json(&StoryJson::from(story))?;
            continue;
        }
        if index > 0 {
            context.out.data("")?;
        }
        people(context, story)?;
    }
    Ok(())
}

// The same names as in JSON, so that whoever reads one can write a filter for the other.
fn people(context: &Context, story: &Story) -> Result<(), Fault> {
    let value = serde_json::to_value(EntryJson::from(&story.entry))
        .map_err(|error| Fault::failed(format!("cannot write the entry: {error}")))?;
    let columns = COLUMNS.into_iter().filter_map(|name| Some((name, value.get(name)?)));
    for (name, value) in columns.filter(|(name, value)| *name == "payload" || !value.is_null()) {
        let text = match (name, value.as_str()) {
            ("payload", _) => String::from_utf8_lossy(&story.entry.payload).into_owned(),
            (_, Some(text)) => text.to_owned(),
            (_, None) => value.to_string(),
        };
        context.out.data(format_args!("{name:>16}  {}", clean(&text)))?;
    }
    for record in &story.audit {
        let line = format!("{} {} by {}: {}", record.at, record.kind, record.actor, record.detail);
        context.out.data(format_args!("{:>16}  {}", "audit", clean(&line)))?;
    }
    Ok(())
}

fn clean(text: &str) -> String {
    text.split('\n').map(output::clean).collect::<Vec<_>>().join("\n")
}
