//! A crash accuses, it does not convict: relays that are killed again and again, with the attempts that are the default.

use std::time::{Duration, Instant};

use crate::home::{Home, eventually};
use crate::many_relays::on_postgres;
use crate::order;
use crate::signals::hold;
use crate::storm::Dice;

const ROUTE: &str = "[routes.r]\nto = \"file:out.ndjson\"\nlease = \"1s\"\nreap_interval = \"200ms\"\ngrace = \"300ms\"\n\
    batch = 50\nbackoff = { base = \"1ms\", max = \"10ms\" }\n";

/// As long as relays are killed.
const MINUTE: Duration = Duration::from_secs(60);
/// So many kills begin it, while the destination hangs.
const HANGING: u32 = 5;
/// The most kills while the destination hangs. One more, always with the same entry in flight, would rightly convict
/// it: three crashes are free, and five attempts are the default.
const HANGING_MAX: u32 = 7;

fn killed_for_a_minute(home: &Home, order: &str, seed: u64) {
    let database =
        if home.path("pillarbox.toml").exists() { home.read("pillarbox.toml") } else { String::new() };
    home.write("pillarbox.toml", &format!("{database}{ROUTE}order = \"{order}\"\n"));
    let mut dice = Dice(seed);
    let mut staged = order::stage(home, 600);
    let begun = Instant::now();
    let (mut kills, mut hanging) = (0, 0);
    while begun.elapsed() < MINUTE {
        let hangs = kills < HANGING || dice.roll(3) == 0 && hanging < HANGING_MAX;
        hanging += u32::from(hangs);
        let held = hangs.then(|| hold(home, "out.ndjson"));
        let relay = home.start(["relay"]);
        // Longer than the lease of the one before.
        dice.pause(1_500..4_000);
        relay.kill();
        kills += 1;
        drop(held);
        if kills == HANGING {
            let entries = home.ok(["list", "--limit", "1000", "--json"]).lines();
            let tried = entries.iter().filter(|entry| entry["attempts"].as_u64() > Some(1)).count();
            assert!(tried > 0, "{order}: nobody was accused in {HANGING} kills");
        }
        for (key, ids) in order::stage(home, 100) {
            staged.entry(key).or_default().extend(ids);
        }
    }
    let mut relay = home.start(["relay"]);
    let all = staged.values().map(Vec::len).sum::<usize>();
    let mut totals = home.totals();
    while totals["delivered"] != all && totals["dead"] == 0 {
        let before = totals["delivered"].as_u64();
        eventually("more is delivered", || {
            totals = home.totals();
            totals["delivered"].as_u64() > before || totals["dead"] != 0
        });
    }
    assert_eq!(totals["dead"], 0, "{order}, {kills} kills: {totals}");
    relay.signal("TERM");
    assert_eq!(relay.end().code, 0);
    assert!(kills > 10, "{kills} kills in a minute");
    if order == "key" {
        assert_eq!(order::arrived(home), staged);
    }
}

/// By rows and by lanes, on both databases, all at once.
#[test]
fn a_relay_killed_every_few_seconds_for_a_minute_convicts_nobody() {
    std::thread::scope(|scope| {
        for (order, seed) in [("none", 1), ("key", 2)] {
            scope.spawn(move || killed_for_a_minute(&Home::migrated(), order, seed));
            scope.spawn(move || killed_for_a_minute(&on_postgres(), order, seed + 2));
        }
    });
}
