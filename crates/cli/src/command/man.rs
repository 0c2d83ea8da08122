//! `pillarbox man`

use std::path::PathBuf;

use clap::Args;

use crate::fault::Fault;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  pillarbox man | man -l -
  pillarbox man --to /usr/local/share/man/man1";

/// Where to write.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ManArgs {
    /// Write a page for each command into this folder, instead of the page of the program to stdout
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
}

/// Prints the manual page of this program, or writes the pages of all its commands.
pub(crate) fn run(args: &ManArgs, program: clap::Command, out: Output) -> Result<(), Fault> {
    let Some(folder) = &args.to else {
        let mut page = Vec::new();
        clap_mangen::Man::new(program).render(&mut page).map_err(|error| failed("stdout", &error))?;
        return out.data(String::from_utf8_lossy(&page).trim_end());
    };
    clap_mangen::generate_to(program, folder).map_err(|error| failed(&folder.display().to_string(), &error))
}

fn failed(to: &str, error: &std::io::Error) -> Fault {
    Fault::failed(format!("cannot write the manual to {to}: {error}"))
}
