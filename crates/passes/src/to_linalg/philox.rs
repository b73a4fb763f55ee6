//! Philox4x32-10 on scalars: the arithmetic of `dynamo.random`.
//!
//! The four 32-bit words are held in 64-bit integers, so that a product of two words is one multiplication that exists for vectors
//! (`vpmuludq`) and yields both halves. It uses the lower halves of its operands, so the contents of the upper halves do not matter until
//! the end.

use dynamlir_dialect::ir::{Builder, Type, Value};

/// The multipliers of the two words that are multiplied in each round.
const MULTIPLIERS: [i64; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// The increments of the key after each round.
const WEYL: [i64; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// The first two words, or the last two, of the block generated from key and counter, as one number.
pub(super) fn half(b: Builder, key: Value, counter: Value, half: i64) -> Value {
    let long = Type::int(b.ctx(), 64);
    let word = b.int(long, 0xFFFF_FFFF);
    let width = b.int(long, 32);
    let low = |x: Value| b.andi(x, word);
    let high = |x: Value| b.shrui(x, width);
    let zero = b.int(long, 0);
    let mut words = [counter, high(counter), zero, zero];
    let mut keys = [low(key), high(key)];
    for round in 0..ROUNDS {
        if round > 0 {
            keys = [0, 1].map(|i| low(b.addi(keys[i], b.int(long, WEYL[i]))));
        }
        let [first, second] = [0, 1].map(|i| b.muli(low(words[2 * i]), b.int(long, MULTIPLIERS[i])));
        let mixed = |product: Value, with: Value, key: Value| b.xori(high(product), b.xori(with, key));
        words = [mixed(second, words[1], keys[0]), second, mixed(first, words[3], keys[1]), first];
    }
    let [first, second] = if half == 0 { [words[0], words[1]] } else { [words[2], words[3]] };
    b.ori(low(first), b.shli(second, width))
}
