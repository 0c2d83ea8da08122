//! Everything that is wrong, for `status --check` and its JSON.

use pillarbox_core::RouteName;
use pillarbox_core::health::{Problem, ProblemKind, Verdict};
use serde::Serialize;

use crate::fault::Fault;

/// One thing that is wrong.
#[derive(Debug, Serialize)]
pub(super) struct ProblemJson<'a> {
    kind: ProblemKind,
    route: Option<&'a RouteName>,
    /// What is wrong, and what to do.
    message: String,
}

impl<'a> From<&'a Problem> for ProblemJson<'a> {
    fn from(problem: &'a Problem) -> Self {
        Self { kind: problem.kind, route: problem.route.as_ref(), message: problem.message() }
    }
}

/// Unhealthy with all of them.
pub(super) fn check(verdict: &Verdict) -> Result<(), Fault> {
    match verdict.problems.as_slice() {
        [] => Ok(()),
        [one] => Err(Fault::Unhealthy(one.message())),
        many => {
            let lines: String = many.iter().map(|problem| format!("\n  {}", problem.message())).collect();
            Err(Fault::Unhealthy(format!("{} problems:{lines}", many.len())))
        }
    }
}

#[cfg(test)]
mod tests {
    use pillarbox_core::Status;
    use pillarbox_core::health::{Limits, Look};
    use pillarbox_core::port::{RouteCounts, SagaCounts};

    use super::*;

    #[test]
    fn all_problems_are_told_with_exit_code_3() {
        let dead = |route: &str| {
            let mut counts = RouteCounts::zero(RouteName::new(route).unwrap());
            counts.counts.insert(Status::Dead, 3);
            counts
        };
        let routes = [dead("a"), dead("b")];
        let judge = |routes| {
            let sagas = SagaCounts::zero();
            let look = Look { routes, configured: &[], sagas: &sagas, relays: &[], tables: None };
            check(&Verdict::of(&look, &Limits::default()))
        };
        let fault = judge(&routes).unwrap_err();
        assert_eq!(fault.exit_code(), 3);
        for part in ["2 problems:", "3 dead on route a.", "3 dead on route b."] {
            assert!(fault.message().unwrap().contains(part), "{fault:?}");
        }
        let fault = judge(&routes[..1]).unwrap_err();
        assert!(fault.message().unwrap().starts_with("3 dead on route a."), "{fault:?}");
        assert!(judge(&[]).is_ok());
    }
}
