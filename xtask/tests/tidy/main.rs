//! What the repository promises about itself: the direction of its dependencies, what it is not built from, the
//! names in PROOFS.md, and habits that a compiler does not check.

mod crates;
mod graph;
mod proofs;
mod repository;
mod text;
