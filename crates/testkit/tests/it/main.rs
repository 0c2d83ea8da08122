//! The test kit under its own suites.

mod memory {
    use pillarbox_testkit::MemoryHarness;

    pillarbox_testkit::store_conformance!(MemoryHarness);
}
