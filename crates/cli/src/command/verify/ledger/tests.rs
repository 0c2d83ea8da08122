use pillarbox_core::{RouteName, Timestamp};

use super::*;

fn id(n: u128) -> EventId {
    EventId(Uuid::from_u128(n))
}

fn message(n: u128) -> Attributes {
    [("id".to_owned(), id(n).to_string()), ("pillarboxseq".to_owned(), n.to_string())].into()
}

fn arrived(ledger: &mut Ledger, ids: &[u128]) {
    ids.iter().for_each(|n| ledger.arrive(&message(*n)));
}

/// Entries 1 to so many, in turn, of two keys: the odd ones and the even ones.
fn staged(count: u128) -> Ledger {
    let mut ledger = Ledger::new(Truth::Table);
    for n in 1..=count {
        let moment = Moment::in_turn(i64::try_from(n).unwrap());
        ledger.stage(id(n), Some(if n % 2 == 1 { "odd" } else { "even" }), moment, State::Done);
    }
    ledger
}

fn row(n: u128, route: &str) -> InventoryRow {
    InventoryRow {
        seq: i64::try_from(n).unwrap(),
        event_id: id(n),
        route: RouteName::new(route).unwrap(),
        key: None,
        status: Status::Delivered,
        created_at: Timestamp::MIN,
    }
}

#[test]
fn what_arrived_once_and_in_order_is_clean() {
    let mut ledger = staged(6);
    // Keys are independent of each other.
    arrived(&mut ledger, &[2, 4, 1, 6, 3, 5]);
    let clean = Findings { staged: 6, received: 6, ..Findings::default() };
    assert_eq!(ledger.findings(false), clean);
}

#[test]
fn each_fault_is_found() {
    let mut ledger = staged(8);
    ledger.arrive(&Attributes::new());
    arrived(&mut ledger, &[3, 1, 2, 2, 2, 99, 5, 4, 7]);
    let findings = ledger.findings(false);
    assert_eq!(findings.lost, [id(6), id(8)]);
    assert_eq!(findings.duplicated, [(id(2), 3)]);
    assert_eq!(findings.invented, [id(99)]);
    assert_eq!(findings.out_of_order, [id(1)], "it came after 3");
    assert_eq!((findings.unreadable, findings.received), (1, 10));
    assert_eq!(ledger.key_of(id(1)), Some("odd"));
}

#[test]
fn what_comes_again_is_not_out_of_order() {
    let mut ledger = staged(3);
    arrived(&mut ledger, &[1, 2, 3, 1]);
    let findings = ledger.findings(false);
    assert_eq!((findings.out_of_order, findings.duplicated), (vec![], vec![(id(1), 2)]));
}

#[test]
fn what_need_not_be_there_is_not_lost() {
    let mut ledger = staged(4);
    ledger.became(id(1), State::Waiting);
    ledger.became(id(2), State::Dead);
    ledger.became(id(3), State::Discarded);
    ledger.became(id(4), State::Waiting);
    arrived(&mut ledger, &[4]);
    let findings = ledger.findings(false);
    assert_eq!((findings.waiting, findings.dead, findings.discarded), (1, 1, 1));
    assert!(findings.lost.is_empty());
}

#[test]
fn a_stranger_may_be_late_or_of_another_route() {
    let mut ledger = staged(2);
    arrived(&mut ledger, &[1, 2, 3, 4, 5]);
    let claims = ledger.claims();
    ledger.look(&row(3, "orders"), true, &claims);
    ledger.look(&row(4, "mails"), false, &claims);
    let findings = ledger.findings(false);
    assert_eq!((findings.invented, findings.elsewhere), (vec![id(5)], 1));
}

#[test]
fn a_stranger_may_have_been_purged_unless_its_place_is_another_events() {
    let mut ledger = staged(2);
    arrived(&mut ledger, &[1, 2, 3]);
    ledger
        .arrive(&[("id".to_owned(), id(9).to_string()), ("pillarboxseq".to_owned(), "2".to_owned())].into());
    ledger.arrive(&[("id".to_owned(), id(10).to_string())].into());
    let claims = ledger.claims();
    ledger.look(&row(2, "orders"), true, &claims);
    let findings = ledger.findings(true);
    assert_eq!((findings.purged, findings.invented), (1, vec![id(9), id(10)]));
    assert_eq!(ledger.findings(false).invented.len(), 3, "nothing was ever purged");
}

#[test]
fn a_file_is_the_whole_truth() {
    let mut ledger = Ledger::new(Truth::File);
    arrived(&mut ledger, &[1]);
    let claims = ledger.claims();
    ledger.look(&row(1, "orders"), true, &claims);
    assert_eq!(ledger.findings(true).invented, [id(1)]);
}

/// All orders of arrival of a few entries of one key.
fn permutations(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![vec![]];
    }
    let shorter = permutations(count - 1);
    let with_last = |order: Vec<usize>| {
        (0..=order.len()).map(move |at| {
            let mut longer = order.clone();
            longer.insert(at, count - 1);
            longer
        })
    };
    shorter.into_iter().flat_map(with_last).collect()
}

fn agrees_with_the_definition(moments: &[Moment]) {
    for order in permutations(moments.len()) {
        let mut line = KeyHistory::default();
        let late: Vec<bool> = order.iter().map(|n| line.arrive(moments[*n])).collect();
        let expected: Vec<bool> = (0..order.len())
            .map(|at| order[..at].iter().any(|earlier| moments[order[at]].comes_before(moments[*earlier])))
            .collect();
        assert_eq!(late, expected, "{order:?} of {moments:?}");
    }
}

#[test]
fn what_is_late_is_what_should_have_come_before_something_that_is_there() {
    let turn = Moment::in_turn;
    agrees_with_the_definition(&[turn(1), turn(2), turn(3), turn(4), turn(5)]);
    let of = Moment::in_transaction;
    agrees_with_the_definition(&[of(7, 1), of(8, 2), of(7, 3), of(8, 4), of(9, 5), of(7, 6)]);
    // Two that overlap, one after both, one that spans all, and a transaction of two.
    let between = Moment::between;
    agrees_with_the_definition(&[
        between(1, 4, 1),
        between(2, 3, 2),
        between(5, 6, 3),
        between(0, 9, 4),
        between(7, 8, 5),
        between(7, 8, 6),
    ]);
}

#[test]
fn nothing_is_known_between_two_transactions_of_a_table_with_many_writers() {
    assert!(!Moment::in_transaction(7, 1).comes_before(Moment::in_transaction(8, 2)));
    assert!(Moment::in_transaction(7, 1).comes_before(Moment::in_transaction(7, 2)));
}
