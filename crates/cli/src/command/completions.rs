//! `pillarbox completions SHELL`

use clap::Args;
use clap_complete::Shell;

use crate::fault::Fault;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  pillarbox completions bash > /etc/bash_completion.d/pillarbox
  pillarbox completions zsh > ~/.zfunc/_pillarbox
  pillarbox completions fish > ~/.config/fish/completions/pillarbox.fish";

/// For which shell.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Prints the script for this program.
pub(crate) fn run(args: &CompletionsArgs, mut program: clap::Command, out: Output) -> Result<(), Fault> {
    // Into memory first: the generator panics where a pipe is closed.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut program, "pillarbox", &mut script);
    out.data(String::from_utf8_lossy(&script).trim_end())
}
