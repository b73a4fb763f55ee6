//! Code shared by the property tests.

use proptest::test_runner::{Config, RngSeed};

/// A configuration with the same cases in each run, so that a change that does not touch this crate does not run into its bugs.
/// `PROPTEST_CASES` and `PROPTEST_RNG_SEED` select more or other cases: see CONTRIBUTING.md.
pub fn config(cases: u32) -> Config {
    let given = Config::default();
    let rng_seed = if given.rng_seed == RngSeed::Random { RngSeed::Fixed(0) } else { given.rng_seed };
    Config { cases: given.cases.max(cases), rng_seed, failure_persistence: None, ..given }
}
