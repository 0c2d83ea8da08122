//! The messages that a source has received and not answered: which of them may be handed out, and until when the server
//! hides them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

/// A message as it is known here.
pub(super) type Number = u64;

/// One message that is held.
struct Unanswered {
    handle: String,
    group: Option<String>,
    since: Instant,
    until: Instant,
}

/// All messages that are held. `M` is what is handed out.
pub(super) struct Holding<M> {
    visibility: Duration,
    hold: Duration,
    held: BTreeMap<Number, Unanswered>,
    next: Number,
    /// Groups that have a message with the consumer, and those of their messages that wait for its answer.
    groups: HashMap<String, VecDeque<(Number, M)>>,
}

impl<M> Holding<M> {
    pub(super) fn new(visibility: Duration, hold: Duration) -> Self {
        Self { visibility, hold, held: BTreeMap::new(), next: 0, groups: HashMap::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    /// Takes a message that has just arrived, and returns it if it may be handed out.
    pub(super) fn arrived(
        &mut self,
        handle: String,
        group: Option<String>,
        message: M,
        now: Instant,
    ) -> Option<(Number, M)> {
        self.next += 1;
        let number = self.next;
        let until = now + self.visibility;
        self.held.insert(number, Unanswered { handle, group: group.clone(), since: now, until });
        let Some(group) = group else { return Some((number, message)) };
        match self.groups.get_mut(&group) {
            Some(behind) => {
                behind.push_back((number, message));
                None
            }
            None => {
                self.groups.insert(group, VecDeque::new());
                Some((number, message))
            }
        }
    }

    /// Forgets a message that was acknowledged, and returns its handle and the next one of its group.
    pub(super) fn acknowledged(&mut self, number: Number) -> Option<(String, Option<(Number, M)>)> {
        let Unanswered { handle, group, .. } = self.held.remove(&number)?;
        let next = group.and_then(|group| {
            let next = self.groups.get_mut(&group)?.pop_front();
            if next.is_none() {
                self.groups.remove(&group);
            }
            next
        });
        Some((handle, next))
    }

    /// Forgets a message that is given back and all that wait behind it: they must not overtake it. The message itself
    /// comes last, so that nothing behind it is visible before it.
    pub(super) fn returned(&mut self, number: Number) -> Vec<String> {
        let Some(Unanswered { handle, group, .. }) = self.held.remove(&number) else { return Vec::new() };
        let behind = group.and_then(|group| self.groups.remove(&group)).unwrap_or_default();
        let behind = behind.into_iter().rev().filter_map(|(number, _)| self.held.remove(&number));
        let mut handles: Vec<String> = behind.map(|held| held.handle).collect();
        handles.push(handle);
        handles
    }

    /// Forgets all messages that wait for another one of their group.
    pub(super) fn behind(&mut self) -> Vec<String> {
        let behind: Vec<_> = self.groups.values_mut().flat_map(|group| group.drain(..).rev()).collect();
        behind
            .into_iter()
            .filter_map(|(number, _)| self.held.remove(&number))
            .map(|held| held.handle)
            .collect()
    }

    /// When the next message must be extended.
    pub(super) fn due(&self) -> Option<Instant> {
        self.extendable().map(|(_, held)| self.due_of(held)).min()
    }

    /// The handles of those that must be extended now. They count as extended.
    pub(super) fn extend(&mut self, now: Instant) -> Vec<String> {
        let due = self.extendable().filter(|(_, held)| self.due_of(held) <= now);
        let numbers: Vec<Number> = due.map(|(number, _)| *number).collect();
        let until = now + self.visibility;
        let extended = numbers.into_iter().filter_map(|number| {
            let held = self.held.get_mut(&number)?;
            held.until = until;
            Some(held.handle.clone())
        });
        extended.collect()
    }

    fn extendable(&self) -> impl Iterator<Item = (&Number, &Unanswered)> {
        self.held.iter().filter(|(_, held)| held.until < held.since + self.hold)
    }

    /// After a third of its time, so that there is time for a second request if the first one fails.
    fn due_of(&self, held: &Unanswered) -> Instant {
        held.until.checked_sub(self.visibility / 3 * 2).unwrap_or(held.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn holding() -> Holding<&'static str> {
        Holding::new(30 * SECOND, 60 * SECOND)
    }

    fn arrive(
        holding: &mut Holding<&'static str>,
        group: &str,
        name: &'static str,
    ) -> Option<(Number, &'static str)> {
        let group = (!group.is_empty()).then(|| group.to_owned());
        holding.arrived(format!("h-{name}"), group, name, Instant::now())
    }

    #[test]
    fn one_message_of_a_group_is_handed_out_at_a_time() {
        let mut holding = holding();
        let (first, _) = arrive(&mut holding, "a", "1").unwrap();
        assert!(arrive(&mut holding, "a", "2").is_none());
        assert!(arrive(&mut holding, "b", "3").is_some() && arrive(&mut holding, "", "4").is_some());
        let (handle, next) = holding.acknowledged(first).unwrap();
        assert_eq!((handle.as_str(), next.map(|(_, message)| message)), ("h-1", Some("2")));
        let (_, next) = holding.acknowledged(next.unwrap().0).unwrap();
        assert_eq!((next, holding.len()), (None, 2));
        assert!(arrive(&mut holding, "a", "5").is_some(), "the group is free again");
    }

    #[test]
    fn what_is_given_back_takes_along_what_is_behind_it() {
        let mut holding = holding();
        let (first, _) = arrive(&mut holding, "a", "1").unwrap();
        for name in ["2", "3"] {
            assert!(arrive(&mut holding, "a", name).is_none());
        }
        assert_eq!(holding.returned(first), ["h-3", "h-2", "h-1"]);
        assert_eq!(holding.len(), 0);
        assert!(holding.returned(first).is_empty() && holding.acknowledged(first).is_none());
        assert!(arrive(&mut holding, "a", "1").is_some());
        assert!(arrive(&mut holding, "a", "2").is_none());
        assert_eq!(holding.behind(), ["h-2"]);
        assert_eq!(holding.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_is_extended_after_a_third_of_its_time_and_not_for_ever() {
        let mut holding = holding();
        assert!(holding.due().is_none());
        arrive(&mut holding, "", "1");
        let begin = Instant::now();
        assert_eq!(holding.due(), Some(begin + 10 * SECOND));
        assert!(holding.extend(begin).is_empty());
        assert_eq!(holding.extend(begin + 10 * SECOND), ["h-1"]);
        assert_eq!(holding.due(), Some(begin + 20 * SECOND));
        assert_eq!(holding.extend(begin + 30 * SECOND), ["h-1"]);
        assert!(holding.due().is_none(), "it is held until a minute is over");
        assert_eq!(holding.len(), 1);
    }
}
