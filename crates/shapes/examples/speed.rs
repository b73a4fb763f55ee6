//! The cost of each operation. Sizes are computed for every operator of a graph during capture, so each operation has to take far less than
//! a microsecond: `cargo run --release -p dynamlir-shapes --example speed` prints the times.
#![expect(clippy::expect_used, reason = "the sizes are small")]

use std::{hint::black_box, time::Instant};

use dynamlir_shapes::{Dim, Dimension, Predicate, Relation, Scope, Window};

const ROUNDS: u32 = 200_000;

fn time<T>(what: &str, operation: impl Fn() -> T) {
    let started = Instant::now();
    for _ in 0..ROUNDS {
        black_box(operation());
    }
    println!("{what:32} {:4} ns", started.elapsed().as_nanos() / u128::from(ROUNDS));
}

fn main() {
    let mut scope = Scope::new();
    let (batch, length) = (Dim::from(scope.fresh_size(8)), Dim::from(scope.fresh_size(128)));
    let (one, four) = (Dim::from(1), Dim::from(4));
    let rows = batch.mul(&length).expect("small");
    let again = length.mul(&batch).expect("small");
    let more = rows.add(&four).expect("small");
    let less = Predicate::new(length.clone(), Relation::Lt, rows.clone());
    let numbers = Window::row_major(&[8, 128, 64]);
    let symbols = Window::row_major_in(&[batch.clone(), length.clone(), Dim::from(64)], &scope).expect("small");

    time("4 + 1", || four.add(&one));
    time("s1 + 1", || length.add(&one));
    time("s0*s1", || batch.mul(&length));
    time("s0*s1 + 4 - s0", || more.sub(&batch));
    time("(s0*s1) floordiv s1", || rows.floordiv(&length));
    time("(s0*s1 + 4) floordiv 4", || more.floordiv(&four));
    time("min(s1, 4)", || length.min(&four));
    time("s0*s1 == s1*s0", || black_box(&rows) == black_box(&again));
    time("decide s1 < s0*s1", || scope.decide(black_box(&less)));
    time("permute 8x128x64", || numbers.permute(&[0, 2, 1]));
    time("permute s0 x s1 x 64", || symbols.permute(&[0, 2, 1]));
    time("contiguous? 8x128x64", || black_box(&numbers).is_row_major());
    time("contiguous? s0 x s1 x 64", || symbols.is_contiguous_in(&scope));
}
