//! A crash accuses, it does not convict: relays that are killed again and again, with the attempts that are the default.

use crate::home::{Home, eventually};
use crate::many_relays::on_postgres;
use crate::order;
use crate::signals::hold;
use crate::storm::Dice;

const ROUTE: &str = "[routes.r]\nto = \"file:out.ndjson\"\nlease = \"1s\"\nreap_interval = \"200ms\"\ngrace = \"300ms\"\n\
    batch = 50\nbackoff = { base = \"1ms\", max = \"10ms\" }\n";

/// So many relays are killed.
const KILLS: u32 = 16;
/// At least so many of them at the beginning, while the destination hangs.
const HANGING: u32 = 5;
/// An entry with so many attempts must get through before the next kill. Three crashes are free and five attempts are
/// the default, so the eighth crash would rightly convict it: this is the fifth, the next kill may be one more, and by
/// lanes the crash before this one is not yet written down.
const NEAR: u64 = 5;

/// The most attempts of an entry that has not been delivered.
fn most_accused(home: &Home) -> u64 {
    let entries = home.ok(["list", "--limit", "10000", "--json"]).lines();
    let open = entries.iter().filter(|entry| entry["status"] != "delivered");
    open.filter_map(|entry| entry["attempts"].as_u64()).max().unwrap_or(0)
}

fn killed_again_and_again(home: &Home, order: &str, seed: u64) {
    let database =
        if home.path("pillarbox.toml").exists() { home.read("pillarbox.toml") } else { String::new() };
    home.write("pillarbox.toml", &format!("{database}{ROUTE}order = \"{order}\"\n"));
    let mut dice = Dice(seed);
    let mut staged = order::stage(home, 600);
    let (mut kills, mut accused) = (0, 0);
    // On a machine so busy that relays die before they have claimed anything, it takes more of them.
    while kills < KILLS || accused < 2 {
        assert!(kills < 5 * KILLS, "{order}: nobody was accused in {kills} kills");
        let most = most_accused(home);
        accused = accused.max(most);
        let hangs = most < NEAR && (kills < HANGING || accused < 2 || dice.roll(3) == 0);
        let held = hangs.then(|| hold(home, "out.ndjson"));
        let relay = home.start(["relay"]);
        // Longer than the lease of the one before.
        dice.pause(1_500..4_000);
        if most >= NEAR {
            eventually("those who were accused most get through", || most_accused(home) < NEAR);
        }
        relay.kill();
        kills += 1;
        drop(held);
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
    if order == "key" {
        assert_eq!(order::arrived(home), staged);
    }
}

/// By rows and by lanes, on both databases, all at once.
#[test]
fn a_relay_killed_every_few_seconds_convicts_nobody() {
    std::thread::scope(|scope| {
        for (order, seed) in [("none", 1), ("key", 2)] {
            scope.spawn(move || killed_again_and_again(&Home::migrated(), order, seed));
            scope.spawn(move || killed_again_and_again(&on_postgres(), order, seed + 2));
        }
    });
}
