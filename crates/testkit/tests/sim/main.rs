//! The simulator at work: the system as it is passes every seed, and every planted defect is caught.

mod mutants;
mod worlds;
