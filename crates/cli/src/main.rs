//! The binary `pillarbox`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pillarbox_cli::main()
}
