//! A bar for long work, only on a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::Output;

/// How far a long work has come, drawn on stderr while that is a terminal.
pub struct Progress(ProgressBar);

impl Progress {
    /// Counts up to `total`; without a total it only counts.
    pub fn new(output: Output, what: &'static str, total: Option<u64>) -> Self {
        let template = if total.is_some() {
            "{msg} [{bar:32.cyan}] {human_pos}/{human_len}  {rate}/s  {elapsed}"
        } else {
            "{msg} {spinner} {human_pos}  {rate}/s  {elapsed}"
        };
        Self::with(output, what, total, template)
    }

    /// Counts bytes up to `total`; without a total it only counts.
    pub fn bytes(output: Output, what: &'static str, total: Option<u64>) -> Self {
        let template = if total.is_some() {
            "{msg} [{bar:32.cyan}] {bytes}/{total_bytes}  {bytes_per_sec}  {elapsed}"
        } else {
            "{msg} {spinner} {bytes}  {bytes_per_sec}  {elapsed}"
        };
        Self::with(output, what, total, template)
    }

    fn with(output: Output, what: &'static str, total: Option<u64>, template: &str) -> Self {
        let target = if output.quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(total, target);
        if let Ok(style) = ProgressStyle::with_template(template) {
            let rate = |state: &ProgressState, out: &mut dyn std::fmt::Write| {
                let _ = write!(out, "{:.0}", state.per_sec());
            };
            bar.set_style(style.with_key("rate", rate));
        }
        bar.set_message(what);
        Self(bar)
    }

    /// So many more are done.
    pub fn add(&self, count: u64) {
        self.0.inc(count);
    }

    /// So many are done in all.
    pub fn set(&self, count: u64) {
        self.0.set_position(count);
    }
}

// However the work ends, the line belongs to the message that follows.
impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
