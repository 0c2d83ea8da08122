//! What every suite is made of: its one list of cases becomes the table of them, and the tests of an adapter.

use std::borrow::Borrow;
#[cfg(test)]
use std::collections::BTreeSet;

use super::case::{Case, block_on};

/// Makes the table of cases from the list.
macro_rules! table {
    ([$subject:ty] $($section:ident { $($case:ident),* $(,)? })*) => {
        vec![$($($crate::Case {
            section: stringify!($section),
            name: stringify!($case),
            run: |subject: &$subject| Box::pin($section::$case(subject)),
        }),*),*]
    };
}
pub(super) use table;

/// Makes one test per case from the list; `$run` runs the case of this name.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_tests {
    ([$run:expr] $($section:ident { $($case:ident),* $(,)? })*) => {
        $($(
            #[test]
            fn $case() {
                $run(stringify!($case));
            }
        )*)*
    };
}

/// Expands to the suites that are named, each in a module of its own.
///
/// The names are `sink`, `source`, `consumer`, `transcript` and `faults`. The harness implements the trait of each.
///
/// ```no_run
/// # mod it {
/// # use pillarbox_conformance::MemoryBrokerHarness;
/// pillarbox_conformance::transport_conformance!(MemoryBrokerHarness: source, consumer);
/// # }
/// ```
#[macro_export]
macro_rules! transport_conformance {
    ($harness:ty: $($suite:ident),+) => {
        $($crate::__transport_suite!($suite $harness);)+
    };
}

/// One of them.
#[doc(hidden)]
#[macro_export]
macro_rules! __transport_suite {
    (sink $harness:ty) => {
        mod sink {
            use super::*;

            $crate::sink_conformance!($harness);
        }
    };
    (source $harness:ty) => {
        mod source {
            use super::*;

            $crate::source_conformance!($harness);
        }
    };
    (consumer $harness:ty) => {
        mod consumer {
            use super::*;

            $crate::consumer_conformance!($harness);
        }
    };
    (transcript $harness:ty) => {
        mod transcript {
            use super::*;

            $crate::transcript_conformance!($harness);
        }
    };
    (faults $harness:ty) => {
        mod faults {
            use super::*;

            $crate::fault_conformance!($harness);
        }
    };
}

/// Runs one case by its name on what `start` makes.
pub(super) fn run_named<S: ?Sized, B: Borrow<S>>(
    suite: &'static str,
    cases: &[Case<S>],
    name: &'static str,
    start: impl Future<Output = B>,
) {
    let case = cases.iter().find(|case| case.name == name).expect("the name of a case");
    block_on(suite, name, cases.len(), async {
        let subject = start.await;
        (case.run)(subject.borrow()).await;
    });
}

/// Makes the names of a list, for the tests below: no harness is needed.
#[cfg(test)]
macro_rules! names {
    ([] $($section:ident { $($case:ident),* $(,)? })*) => {
        [$($($crate::Case::<()> {
            section: stringify!($section),
            name: stringify!($case),
            run: |()| Box::pin(async {}),
        }),*),*]
    };
}
#[cfg(test)]
pub(super) use names;

/// Every public function of these sections is in the list, and nothing else.
#[cfg(test)]
pub(super) fn lists<S: ?Sized>(cases: &[Case<S>], sources: &[(&str, &str)]) {
    let listed: BTreeSet<_> = cases.iter().map(|case| (case.section, case.name)).collect();
    let written = sources.iter().flat_map(|(section, source)| {
        let functions = source.lines().filter_map(|line| line.strip_prefix("pub async fn "));
        // A case is a sentence; what is one word is a helper.
        let cases = functions.filter_map(|line| line.split(['<', '(']).next());
        let cases = cases.filter(|name| name.contains('_'));
        cases.map(|name| (*section, name))
    });
    assert_eq!(written.collect::<BTreeSet<_>>(), listed);
}

/// A table of promises names every case of the list in its second column, and no other.
#[cfg(test)]
pub(super) fn promises<S: ?Sized>(cases: &[Case<S>], table: &str) {
    let listed: BTreeSet<_> = cases.iter().map(|case| case.name).collect();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    let named = rows.flat_map(|(_, cases)| cases.split('`').skip(1).step_by(2));
    assert_eq!(named.collect::<BTreeSet<_>>(), listed);
}
