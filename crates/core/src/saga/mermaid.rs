//! A diagram of any saga, as Mermaid text.

use std::fmt::Write as _;

use super::definition::{Saga, SagaOrder};
use super::record::SagaRecord;
use super::states::StepState;
use super::step::StepKind;

/// The part of a step that is drawn.
struct Drawn<'a> {
    name: &'a str,
    handler: &'a str,
    kind: StepKind,
    compensation: Option<&'a str>,
    state: Option<StepState>,
}

impl Saga {
    /// A flowchart of the saga's steps and compensations, as Mermaid text.
    ///
    /// ```
    /// # use pillarbox_core::{Reference, Saga, Step};
    /// # fn main() -> pillarbox_core::Result<()> {
    /// let saga = Saga::group("erase", Reference::new("person", "7")).step(Step::new("crm", "crm.erase")).build()?;
    /// assert!(saga.mermaid().starts_with("flowchart LR"));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn mermaid(&self) -> String {
        let steps = self.steps.iter().map(|step| Drawn {
            name: &step.name,
            handler: &step.handler,
            kind: step.kind,
            compensation: step.compensation.as_deref(),
            state: None,
        });
        draw(&self.name, self.order, &steps.collect::<Vec<_>>())
    }
}

impl SagaRecord {
    /// A flowchart of the saga's steps and compensations with the state of each step, as Mermaid text.
    #[must_use]
    pub fn mermaid(&self) -> String {
        let steps = self.steps.iter().map(|step| Drawn {
            name: &step.name,
            handler: &step.handler,
            kind: step.kind,
            compensation: step.compensation.as_deref(),
            state: Some(step.state),
        });
        draw(&self.name, self.order, &steps.collect::<Vec<_>>())
    }
}

fn draw(name: &str, order: SagaOrder, steps: &[Drawn<'_>]) -> String {
    let mut out = String::from("flowchart LR\n");
    let mut line = |text: String| {
        let _ = writeln!(out, "  {text}");
    };
    line(format!("start([\"{}\"])", plain(name)));
    for (at, step) in steps.iter().enumerate() {
        let (open, close) = if step.kind == StepKind::Pivot { ("{{", "}}") } else { ("[", "]") };
        let state = step.state.map(|state| format!("<br/>{state}")).unwrap_or_default();
        line(format!("s{at}{open}\"{}<br/>{}{state}\"{close}", plain(step.name), plain(step.handler)));
        if let Some(compensation) = step.compensation {
            line(format!("c{at}[/\"undo {}<br/>{}\"/]", plain(step.name), plain(compensation)));
        }
    }
    line("done([\"completed\"])".into());
    match order {
        SagaOrder::Any => {
            for at in 0..steps.len() {
                line(format!("start --> s{at} --> done"));
            }
        }
        SagaOrder::Steps => {
            let names: Vec<String> = (0..steps.len()).map(|at| format!("s{at}")).collect();
            line(format!("start --> {} --> done", names.join(" --> ")));
        }
    }
    let undone: Vec<usize> = (0..steps.len()).filter(|at| steps[*at].compensation.is_some()).collect();
    for at in &undone {
        line(format!("s{at} -. fails .-> c{at}"));
    }
    if let Some(pivot) = steps.iter().position(|step| step.kind == StepKind::Pivot)
        && let Some(last) = undone.last()
    {
        line(format!("s{pivot} -. fails .-> c{last}"));
    }
    if !undone.is_empty() {
        line("back([\"compensated\"])".into());
        let names: Vec<String> = undone.iter().rev().map(|at| format!("c{at}")).collect();
        line(format!("{} --> back", names.join(" --> ")));
    }
    out
}

/// Escapes a text. Entities are the only escape that Mermaid has.
fn plain(text: &str) -> String {
    text.replace('#', "#35;").replace('"', "#quot;").replace('<', "#lt;").replace('>', "#gt;")
}
