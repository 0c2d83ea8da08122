//! `pillarbox config check|show|reference`

use clap::Subcommand;
use serde::Serialize;

use crate::config::{FILE_DEFAULT, Shown, page};
use crate::context::Context;
use crate::fault::Fault;

/// What to do with the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check the configuration file and print what is wrong: exit 0 if nothing is, 2 otherwise
    Check,
    /// Print the configuration in effect: with defaults, and with secrets masked
    Show,
    /// Print every key with its default, its unit and what it does, as Markdown
    Reference,
}

#[derive(Serialize)]
struct Checked<'a> {
    file: String,
    routes: Vec<&'a str>,
}

pub(crate) fn run(command: &ConfigCommand, context: &Context) -> Result<(), Fault> {
    match command {
        ConfigCommand::Check => check(context),
        ConfigCommand::Show => show(context),
        ConfigCommand::Reference => context.out.data(page().trim_end()),
    }
}

// Whatever is wrong with the file was said when it was loaded.
fn check(context: &Context) -> Result<(), Fault> {
    let Some(file) = &context.file else {
        return Err(Fault::usage(format!(
            "there is no {FILE_DEFAULT} in this folder. Name the file with --config FILE"
        )));
    };
    let routes: Vec<_> = context.config.routes.keys().map(|route| route.as_str()).collect();
    let file = file.display().to_string();
    if context.out.json {
        return context.out.json(&Checked { file, routes });
    }
    let routes =
        if routes.is_empty() { "no routes".to_owned() } else { format!("routes {}", routes.join(", ")) };
    context.out.data(format_args!("{file}: no errors, {routes}"))
}

fn show(context: &Context) -> Result<(), Fault> {
    let shown = Shown::new(&context.config, &context.database_url());
    match &context.file {
        Some(file) => context.out.say(format_args!("# {} and defaults", file.display())),
        None => {
            context.out.say(format_args!("# defaults, because there is no {FILE_DEFAULT} in this folder"))
        }
    }
    if context.out.json {
        return context.out.json(&shown);
    }
    let text = toml::to_string(&shown)
        .map_err(|error| Fault::failed(format!("cannot write the configuration as TOML: {error}")))?;
    context.out.data(text.trim_end())
}
