//! The check: what committed against what took effect, read back from the database.

use std::collections::BTreeMap;

use pillarbox_core::Status;

use super::state::Demo;
use crate::database::Notes;
use crate::fault::Fault;

/// What does not fit; nothing, if all is well.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Committed, and no effect.
    pub(crate) lost: Vec<String>,
    /// An effect, and never committed.
    pub(crate) invented: Vec<String>,
    /// More than one effect.
    pub(crate) doubled: Vec<String>,
    /// Given up.
    pub(crate) dead: u64,
}

/// Compares.
pub(crate) async fn check(demo: &Demo) -> Result<Found, Fault> {
    let staging = &demo.database.staging;
    let orders = staging.noted(Notes::Orders, &demo.run).await?;
    let effects = staging.noted(Notes::Effects, &demo.run).await?;
    let counts = demo.database.admin.counts(None).await?;
    let dead =
        counts.iter().filter(|counts| counts.route == demo.route).map(|counts| counts.of(Status::Dead)).sum();
    Ok(Found { dead, ..compare(orders, effects) })
}

fn compare(orders: Vec<String>, effects: Vec<String>) -> Found {
    let mut seen: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    orders.into_iter().for_each(|id| seen.entry(id).or_default().0 += 1);
    effects.into_iter().for_each(|id| seen.entry(id).or_default().1 += 1);
    let mut found = Found::default();
    for (id, (ordered, applied)) in seen {
        match (ordered, applied) {
            (1, 1) => {}
            (0, _) => found.invented.push(id),
            (_, 0) => found.lost.push(id),
            _ => found.doubled.push(id),
        }
    }
    found
}

impl Found {
    /// Whether all is well.
    pub(crate) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// The command's end.
    pub(crate) fn verdict(&self) -> Result<(), Fault> {
        if self.is_nothing() {
            return Ok(());
        }
        let examples: Vec<_> = [&self.lost, &self.invented, &self.doubled]
            .into_iter()
            .flatten()
            .take(5)
            .map(String::as_str)
            .collect();
        Err(Fault::failed(format!(
            "{} lost, {} invented, {} doubled, {} dead: {}",
            self.lost.len(),
            self.invented.len(),
            self.doubled.len(),
            self.dead,
            examples.join(", ")
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_difference_is_found() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let found = compare(texts(&["a", "b", "c"]), texts(&["a", "c", "c", "d"]));
        assert_eq!(found.lost, ["b"]);
        assert_eq!(found.doubled, ["c"]);
        assert_eq!(found.invented, ["d"]);
        assert_eq!(found.verdict().unwrap_err().exit_code(), 1);
        assert!(compare(texts(&["a"]), texts(&["a"])).verdict().is_ok());
    }
}
