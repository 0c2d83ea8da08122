//! Suspects: what an expired lease says about an entry, and what follows from it. A crash accuses an entry, but
//! does not convict it.
//!
//! An expired lease says that a relay died, but not which of its entries killed it. So every entry that comes back
//! from an expired lease is a suspect. The more often that happened to an entry, the fewer others may be in flight
//! beside it, down to none.
//!
//! An entry that really kills its relay ends up alone and runs out of attempts by itself. Entries that were only
//! beside it are delivered.

/// How many crashes an entry may have had in company. They do not count against it. In later crashes the entry was
/// alone.
pub const CRASHES_IN_COMPANY: u32 = 3;

/// The most entries that may be in flight together with any suspect, itself included.
pub const COMPANY_MAX: u32 = 100;

/// How many entries a relay may have in flight together with an entry that had this many expired leases, itself
/// included.
#[must_use]
pub const fn company(crashes: u32) -> u32 {
    match crashes {
        0 => u32::MAX,
        1 => COMPANY_MAX,
        2 => 10,
        _ => 1,
    }
}

/// The attempts that count towards the limit: all but those that a crash ended while other entries were in flight
/// too.
#[must_use]
pub const fn attempts_counted(attempts: u32, crashes: u32) -> u32 {
    let in_company = if crashes < CRASHES_IN_COMPANY { crashes } else { CRASHES_IN_COMPANY };
    attempts.saturating_sub(in_company)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_company_shrinks_down_to_none() {
        let ladder: Vec<u32> = (0..=CRASHES_IN_COMPANY + 1).map(company).collect();
        assert!(ladder.windows(2).all(|pair| pair[1] <= pair[0]), "{ladder:?}");
        assert_eq!(company(CRASHES_IN_COMPANY), 1, "whoever is accused beyond that was alone");
        assert!(company(CRASHES_IN_COMPANY - 1) > 1);
    }

    #[test]
    fn only_crashes_that_an_entry_had_alone_count() {
        // (attempts, crashes, counted)
        for (attempts, crashes, counted) in
            [(0, 0, 0), (2, 0, 2), (1, 1, 0), (3, 1, 2), (3, 3, 0), (5, 5, 2), (0, 3, 0)]
        {
            assert_eq!(
                attempts_counted(attempts, crashes),
                counted,
                "{attempts} attempts, {crashes} crashes"
            );
        }
    }
}
