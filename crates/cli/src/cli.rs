//! The command line as clap sees it.

use clap::{CommandFactory, Parser};

use crate::command::{self, Command};
use crate::context::Globals;
use crate::fault::Fault;
use crate::launch::Program;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  pillarbox demo                                          see everything work, with nothing to install
  pillarbox migrate                                       create the tables
  pillarbox stage --route orders --type order.placed --key o-1 --payload '{\"id\":1}'
  pillarbox relay --drain --route orders --to file:out.ndjson
  pillarbox status --json

Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 unhealthy, 4 schema mismatch.
Data goes to stdout, messages go to stderr.";

/// Transactional messaging: events that your transaction commits are delivered, events that it rolls back
/// never exist.
#[derive(Debug, Parser)]
#[command(name = "pillarbox", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = EXAMPLES, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

impl Program for Cli {
    fn globals(&self) -> &Globals {
        &self.globals
    }

    async fn run(self, out: Output) -> Result<(), Fault> {
        let log = if out.quiet { "error" } else { self.directives() };
        command::run(self.command, &self.globals, Self::command(), out, log).await
    }
}

impl Cli {
    /// What is logged unless `PILLARBOX_LOG` or `--quiet` says otherwise.
    fn directives(&self) -> &'static str {
        match self.command {
            Command::Relay(_) => "pillarbox_engine=info",
            Command::Consume(_) => "pillarbox_engine=info,pillarbox_cli=info",
            // Faults are what these are about: the report tells of them.
            Command::Demo(_) | Command::Bench(_) => "error",
            _ => "warn",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }
}
