//! `cargo xtask bench --page`: the views of the page over a large outbox, what open pages cost a relay beside them, and
//! what an idle daemon costs, on PostgreSQL and on SQLite.

use serde_json::Value;

use super::machine::Machine;
use super::options::Options;
use super::ours::Ours;
use super::run::{Runner, said};
use super::table::thousands;
use super::weather::Weather;
use super::{Places, page};
use crate::Result;
use crate::exec::Executor;
use crate::services::Servers;

/// The part of the page that is written.
const SECTION: &str = "page";
/// Entries of the outbox that is looked at.
const ENTRIES: u32 = 1_000_000;
/// Entries of each drain beside open pages: enough for seconds, because the page looks once a second.
const DRAINED: u32 = 200_000;

/// The longest wait for the first byte of a view, in milliseconds, by its median.
const FIRST_BYTE_MS: f64 = 100.0;
/// What the relay is to reach beside ten open pages, of itself alone.
const BESIDE: f64 = 0.95;
/// What the page's process may spend with ten pages open, of what it spends with one.
const TEN_TO_ONE: f64 = 1.25;
/// The most that an idle daemon may spend of one processor.
const IDLE: f64 = 0.01;
/// Its most memory, in MiB.
const IDLE_MIB: f64 = 40.0;

/// The databases, by their word on the command line and as people call them.
pub(crate) const ALL: [(&str, &str); 2] = [("postgres", "PostgreSQL"), ("sqlite", "SQLite")];

/// What was measured on one of them.
struct Measured {
    shown: &'static str,
    figures: Value,
}

/// Measures all of them, prints the tables, and writes them into the page if the run was whole.
pub(crate) fn run(options: &Options) -> Result<u8> {
    let executor = Executor::new()?;
    let places = Places::new()?;
    let ours = Ours::build(&executor, &places)?;
    let (repeat, entries, drained) =
        (options.repeat.to_string(), options.jobs(ENTRIES).to_string(), options.jobs(DRAINED).to_string());
    let arguments = ["--page", &entries, "--events", &drained, "--repeat", &repeat];
    let mut machine = Machine::of("no server".to_owned())?;
    let (mut weather, mut measured) = (Weather::of_medians(), Vec::new());
    for (name, shown) in ALL.into_iter().filter(|(name, _)| options.wants(name)) {
        machine.note_load();
        let figures = if name == "postgres" {
            let servers = Servers::start_named(&executor, &["postgres"])?;
            let runner = Runner::new(&executor, &places, &servers)?;
            machine.servers = Machine::look(&runner)?.servers;
            weather.calm(|| ours.bench(&runner, &arguments))?
        } else {
            weather.calm(|| said(&executor, &places, ours.command().args(arguments)))?
        };
        let one = Measured { shown, figures };
        // Whoever ends it early has what was measured so far.
        eprintln!("{}", markdown(&[&one]));
        measured.push(one);
    }
    machine.note_load();
    let text = format!(
        "{}\n{}",
        conditions(&machine, &weather, options),
        markdown(&measured.iter().collect::<Vec<_>>())
    );
    println!("{text}");
    if options.is_whole() {
        page::write(&places.root, &[(SECTION, &text)])?;
        eprintln!("bench: written to {}", page::PAGE);
    } else {
        eprintln!("bench: not a whole run, so {} stays as it is", page::PAGE);
    }
    Ok(0)
}

/// What was run, when and on what.
fn conditions(machine: &Machine, weather: &Weather, options: &Options) -> String {
    format!(
        "`cargo xtask bench --page`, {} {} entries, half of them delivered, one in twenty of the others dead and one retrying; \
         {}. {}\n\n\
         Goals: the first byte of every view within {FIRST_BYTE_MS} ms, by the median; the relay by lanes beside ten open \
         pages at least {BESIDE} of itself alone, in drains of {} entries; ten pages at most {TEN_TO_ONE} times the \
         processor time of one; an idle relay with its page at most {} % of a core and {IDLE_MIB} MiB. What misses its \
         goal is bold. The view of the doctor has no goal: it examines the database anew each time it is opened.\n",
        machine.describe(),
        thousands(options.jobs(ENTRIES).into()),
        options.rounds(),
        weather.describe(),
        thousands(options.jobs(DRAINED).into()),
        IDLE * 100.0,
    )
}

fn markdown(measured: &[&Measured]) -> String {
    format!("{}\n{}", views(measured), costs(measured))
}

/// The first byte of each view. All databases have the same views in the same order.
fn views(measured: &[&Measured]) -> String {
    let of = |one: &Measured| one.figures["views"].as_array().cloned().unwrap_or_default();
    let heads: String = measured.iter().map(|one| format!(" {}, ms | longest |", one.shown)).collect();
    let mut text = format!("| first byte |{heads}\n|---|{}\n", "--:|--:|".repeat(measured.len()));
    let Some(first) = measured.first() else { return text };
    for view in of(first) {
        let path = view["path"].as_str().unwrap_or_default();
        let times = measured.iter().map(|one| {
            let same = of(one).into_iter().find(|other| other["path"] == view["path"]).unwrap_or_default();
            let goal = (path != "/doctor").then_some(FIRST_BYTE_MS);
            let median = told(same["first_byte_ms"].as_f64(), 1, |time| goal.is_some_and(|goal| time > goal));
            format!(" {median} | {} |", told(same["longest_ms"].as_f64(), 1, |_| false))
        });
        text.push_str(&format!("| `{path}` |{}\n", times.collect::<String>()));
    }
    text
}

/// What it costs, and whom.
fn costs(measured: &[&Measured]) -> String {
    let heads: String = measured.iter().map(|one| format!(" {} |", one.shown)).collect();
    let mut text = format!("| | goal |{heads}\n|---|--:|{}\n", "--:|".repeat(measured.len()));
    let mut line = |what: &str, goal: &str, cell: &dyn Fn(&Value) -> String| {
        let cells: String = measured.iter().map(|one| format!(" {} |", cell(&one.figures))).collect();
        text.push_str(&format!("| {what} | {goal} |{cells}\n"));
    };
    let at = |pointer: &'static str| move |figures: &Value| figures.pointer(pointer).and_then(Value::as_f64);
    let percent =
        |pointer: &'static str| move |figures: &Value| at(pointer)(figures).map(|share| share * 100.0);
    let rate = |pointer: &'static str| {
        move |figures: &Value| at(pointer)(figures).map(thousands).unwrap_or_default()
    };
    let mib = |figures: &Value| at("/idle/memory_bytes")(figures).map(|bytes| bytes / 1024.0 / 1024.0);
    line("relay alone, a second", "", &rate("/beside/alone_per_second"));
    line("relay beside ten open pages, a second", "", &rate("/beside/watched_per_second"));
    line("of the relay alone", &format!("≥ {BESIDE}"), &|figures| {
        told(at("/beside/watched_to_alone")(figures), 2, |ratio| ratio < BESIDE)
    });
    line("the page's process with one page open, % of a core", "", &|figures| {
        told(percent("/beside/one_page")(figures), 2, |_| false)
    });
    line("the same with ten", "", &|figures| told(percent("/beside/ten_pages")(figures), 2, |_| false));
    line("ten, of one", &format!("≤ {TEN_TO_ONE}"), &|figures| {
        told(at("/beside/ten_to_one")(figures), 2, |ratio| ratio > TEN_TO_ONE)
    });
    line("an idle relay with its page, % of a core", &format!("≤ {}", IDLE * 100.0), &|figures| {
        told(percent("/idle/share_of_a_core")(figures), 2, |share| share > IDLE * 100.0)
    });
    line("its memory, MiB", &format!("≤ {IDLE_MIB}"), &|figures| {
        told(mib(figures), 1, |used| used > IDLE_MIB)
    });
    text
}

/// A figure with so many digits, in bold if it misses its goal; empty if it was not measured.
fn told(value: Option<f64>, digits: usize, misses: impl Fn(f64) -> bool) -> String {
    match value {
        Some(value) if misses(value) => format!("**{value:.digits$}**"),
        Some(value) => format!("{value:.digits$}"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn measured(shown: &'static str, slow: f64, beside: f64) -> Measured {
        let view = |path: &str, ms: f64| json!({"path": path, "first_byte_ms": ms, "longest_ms": ms * 2.0});
        Measured {
            shown,
            figures: json!({
                "views": [view("/", 1.5), view("/entries?tenant=t-7", slow), view("/doctor", 900.0)],
                "beside": {"alone_per_second": 50_000.0, "watched_per_second": 48_000.0, "watched_to_alone": beside,
                    "one_page": 0.02, "ten_pages": 0.03, "ten_to_one": 1.5},
                "idle": {"share_of_a_core": 0.004, "memory_bytes": 20 * 1024 * 1024},
            }),
        }
    }

    #[test]
    fn a_view_that_is_too_slow_and_a_relay_that_is_slowed_are_bold() {
        let (postgres, sqlite) = (measured("PostgreSQL", 80.0, 0.96), measured("SQLite", 120.0, 0.9));
        let text = markdown(&[&postgres, &sqlite]);
        for line in [
            "| first byte | PostgreSQL, ms | longest | SQLite, ms | longest |",
            "| `/` | 1.5 | 3.0 | 1.5 | 3.0 |",
            "| `/entries?tenant=t-7` | 80.0 | 160.0 | **120.0** | 240.0 |",
            "| `/doctor` | 900.0 | 1800.0 | 900.0 | 1800.0 |",
            "| relay alone, a second |  | 50,000 | 50,000 |",
            "| of the relay alone | ≥ 0.95 | 0.96 | **0.90** |",
            "| the same with ten |  | 3.00 | 3.00 |",
            "| ten, of one | ≤ 1.25 | **1.50** | **1.50** |",
            "| an idle relay with its page, % of a core | ≤ 1 | 0.40 | 0.40 |",
            "| its memory, MiB | ≤ 40 | 20.0 | 20.0 |",
        ] {
            assert!(text.lines().any(|told| told == line), "{line} is not in {text}");
        }
    }

    #[test]
    fn what_was_not_measured_is_empty_and_not_bold() {
        let text = markdown(&[&Measured { shown: "SQLite", figures: Value::Null }]);
        assert!(text.contains("| of the relay alone | ≥ 0.95 |  |\n"), "{text}");
        assert!(!text.contains("**"), "{text}");
    }
}
