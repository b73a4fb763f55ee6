//! What the property tests share.

use proptest::test_runner::{Config, RngSeed};

/// The same cases in each run, so that a change that did not touch this crate does not find its bugs.
/// `PROPTEST_CASES` and `PROPTEST_RNG_SEED` ask for more and for others: see CONTRIBUTING.md.
pub fn config(cases: u32) -> Config {
    let given = Config::default();
    let rng_seed = if given.rng_seed == RngSeed::Random { RngSeed::Fixed(0) } else { given.rng_seed };
    Config { cases: given.cases.max(cases), rng_seed, failure_persistence: None, ..given }
}
