//! Tests of the simplifier, of a scope's facts, and of the errors for faulty text.
#![expect(clippy::expect_used, reason = "a test whose sizes overflow has failed")]

use dynamlir_shapes::{Bindings, Dim, Dimension, Interval, Predicate, Relation, Scope, ShapeError, Symbol, SymbolInfo};

fn dim(text: &str) -> Dim {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The text of the expression parsed from `text`.
fn simple(text: &str) -> String {
    dim(text).to_string()
}

/// A scope with s0 to s3, sizes of at least 2.
fn sizes() -> Scope {
    let mut scope = Scope::new();
    for hint in [8, 12, 30, 7] {
        scope.fresh_size(hint);
    }
    scope
}

fn predicate(left: &str, relation: Relation, right: &str) -> Predicate {
    Predicate::new(dim(left), relation, dim(right))
}

#[test]
fn equal_polynomials_are_equal_values() {
    assert_eq!(dim("s0*s1 + s0*0"), dim("s1*s0"));
    assert_eq!(dim("(s0 + 1)*(s0 - 1)"), dim("s0*s0 - 1"));
    assert_eq!(dim("s0 - s0 + 3"), Dim::from(3));
    assert_eq!(simple("1 + 4*s0"), "s0*4 + 1");
    assert_eq!(simple("s1 + s0 - 2*s1"), "s0 - s1");
    assert_eq!(simple("-(s0*s1*2)"), "-s0*s1*2");
}

#[test]
fn numbers_fold() {
    assert_eq!(dim("7 floordiv -2"), Dim::from(-4));
    assert_eq!(dim("7 ceildiv 2"), Dim::from(4));
    assert_eq!(dim("-7 mod 4"), Dim::from(1));
    assert_eq!(dim("min(3, max(1, 2), 5)"), Dim::from(2));
}

#[test]
fn divisions_drop_multiples() {
    assert_eq!(simple("(4*s0) floordiv 4"), "s0");
    assert_eq!(simple("(4*s0 + 3) floordiv 4"), "s0");
    assert_eq!(simple("(4*s0 + 3) mod 4"), "3");
    assert_eq!(simple("(4*s0 - 1) mod 4"), "3");
    assert_eq!(simple("(s0 + 9) floordiv 8"), "(s0 + 1) floordiv 8 + 1");
    assert_eq!(simple("(s0*11) mod 8"), "(s0*3) mod 8");
    // ⌊−x / d⌋ is not −⌊x/d⌋.
    assert_eq!(simple("-s0 floordiv 8"), "(-s0) floordiv 8");
    assert_eq!(simple("s0 floordiv -8"), "(-s0) floordiv 8");
    assert_eq!(simple("s0 ceildiv 8"), "-((-s0) floordiv 8)");
}

#[test]
fn divisions_lose_common_factors() {
    assert_eq!(simple("(6*s0 + 4) floordiv 4"), "s0 + s0 floordiv 2 + 1");
    assert_eq!(simple("(2*s0 + 5) mod 4"), "(s0 mod 2)*2 + 1");
    assert_eq!(simple("(s0*s1*4) floordiv (s1*2)"), "s0*2");
    assert_eq!(simple("(s0*s1) floordiv (s1*2)"), "s0 floordiv 2");
    assert_eq!(simple("(s0*s1) mod (s1*2)"), "s1*(s0 mod 2)");
    assert_eq!(simple("(s0*s0 - 1) floordiv (s0 + 1)"), "s0 - 1");
    assert_eq!(simple("(s0*s1 + 3) mod s1"), "3 mod s1");
}

#[test]
fn nested_divisions_are_one() {
    assert_eq!(simple("(s0 floordiv 4) floordiv 2"), "s0 floordiv 8");
    assert_eq!(simple("(s0 floordiv 4 + 3) floordiv 2"), "(s0 + 4) floordiv 8 + 1");
    assert_eq!(simple("(s0 mod 8) mod 4"), "s0 mod 4");
    assert_eq!(simple("(s0 mod 8 + s1) mod 4"), "(s0 + s1) mod 4");
    assert_eq!(simple("(s0 mod 4) mod 8"), "(s0 mod 4) mod 8");
}

#[test]
fn extremes_keep_what_matters() {
    assert_eq!(simple("min(s0, s0 + 1)"), "s0");
    assert_eq!(simple("max(s0, min(s0, s1))"), "s0");
    assert_eq!(simple("min(min(s1, 128), s0, 64)"), "min(s0, s1, 64)");
}

#[test]
fn ranges_simplify_more() {
    let mut scope = sizes();
    let simple = |scope: &Scope, text: &str| dim(text).simplify(scope).expect("no overflow").to_string();
    assert_eq!(simple(&scope, "max(s0, 1)"), "s0");
    assert_eq!(simple(&scope, "min(s0, 128)"), "min(s0, 128)");
    scope.assume(&predicate("s0", Relation::Le, "128")).expect("possible");
    assert_eq!(simple(&scope, "min(s0, 128)"), "s0");
    assert_eq!(simple(&scope, "s0 mod 129"), "s0");
    assert_eq!(simple(&scope, "s0 floordiv 200"), "0");
    // A divisor: no remainder, and the quotient times the divisor is the size.
    scope.assume(&predicate("s1 mod 8", Relation::Eq, "0")).expect("possible");
    assert_eq!(simple(&scope, "s1 mod 4"), "0");
    assert_eq!(simple(&scope, "(s1 + s2) mod 4"), "s2 mod 4");
    assert_eq!(simple(&scope, "(s1 floordiv 8)*8"), "s1");
    assert_eq!(simple(&scope, "s1 floordiv 16"), "s1 floordiv 16");
}

#[test]
fn sizes_of_two_or_more_decide_much() {
    let scope = sizes();
    let decide = |left: &str, relation, right: &str| scope.decide(&predicate(left, relation, right));
    assert_eq!(decide("s0", Relation::Ne, "1"), Some(true));
    assert_eq!(decide("s0*s1", Relation::Gt, "s1"), Some(true));
    assert_eq!(decide("s0*s1", Relation::Eq, "s0"), Some(false));
    assert_eq!(decide("s0", Relation::Eq, "s1"), None);
    assert_eq!(decide("min(s0, 128)", Relation::Le, "s0"), Some(true));
    assert_eq!(decide("s0 - min(s0, s1)", Relation::Ge, "0"), Some(true));
    assert_eq!(decide("s0*2", Relation::Eq, "7"), Some(false));
    assert_eq!(decide("s0 - (s0 floordiv 8)*8", Relation::Eq, "s0 mod 8"), Some(true));
    assert_eq!(decide("s0 mod 8", Relation::Lt, "8"), Some(true));
    assert_eq!(decide("3", Relation::Lt, "8"), Some(true));
}

#[test]
fn assumptions_are_known_from_then_on() {
    let mut scope = sizes();
    let not = predicate("s0", Relation::Ne, "s1*2");
    assert_eq!(scope.decide(&not), None);
    scope.assume(&not).expect("possible");
    assert_eq!(scope.decide(&not), Some(true));
    assert_eq!(scope.decide(&not.negated()), Some(false));
    let less = predicate("s0*s1", Relation::Lt, "s2 + 10");
    scope.assume(&less).expect("possible");
    assert_eq!(scope.decide(&less), Some(true));
    assert_eq!(scope.decide(&predicate("s2*2 + 40", Relation::Gt, "s0*s1*2")), Some(true));
    assert_eq!(scope.assume(&less.negated()), Err(ShapeError::Contradiction(Box::new(less.negated()))));
    assert_eq!(scope.decide(&less), Some(true));
}

#[test]
fn equal_symbols_are_one() {
    let mut scope = sizes();
    scope.assume(&predicate("s3", Relation::Eq, "s1")).expect("possible");
    scope.assume(&predicate("s1", Relation::Eq, "s0")).expect("possible");
    assert_eq!(dim("s3 + s1 + s0").simplify(&scope), Ok(dim("s0*3")));
    scope.assume(&predicate("s2", Relation::Eq, "s0*s3")).expect("possible");
    assert_eq!(dim("s2 floordiv s1").simplify(&scope).and_then(|d| d.simplify(&scope)), Ok(dim("s0")));
    // A fact about one symbol applies to all symbols equal to it.
    scope.assume(&predicate("s3", Relation::Eq, "5")).expect("possible");
    assert_eq!(dim("s2").simplify(&scope), Ok(Dim::from(25)));
    let three = predicate("s1", Relation::Eq, "3");
    assert_eq!(scope.assume(&three), Err(ShapeError::Contradiction(Box::new(three))));
    // Also if a range leaves only one value.
    let mut scope = sizes();
    scope.assume(&predicate("s1", Relation::Eq, "s0*3")).expect("possible");
    scope.assume(&predicate("s0", Relation::Le, "2")).expect("possible");
    assert_eq!(dim("s1").simplify(&scope), Ok(Dim::from(6)));
}

#[test]
fn bounds_and_hints() {
    let mut scope = Scope::new();
    let s0 = Dim::from(scope.fresh(SymbolInfo { range: Interval::new(2, 64), hint: Some(10), divisor: 2 }));
    let twice = s0.mul(&Dim::from(2)).expect("no overflow");
    assert_eq!(scope.bounds(&twice.to_expr()), Interval::new(4, 128));
    assert_eq!(scope.divisor(&twice.to_expr()), 4);
    assert_eq!(twice.hint(&scope), Some(20));
    assert_eq!(dim("s7").hint(&scope), None);
}

#[test]
fn what_has_no_value_is_an_error() {
    let values: Bindings = [(Symbol(0), 0), (Symbol(1), i64::MAX)].into_iter().collect();
    assert_eq!(dim("1 floordiv s0").at(&values), Err(ShapeError::DivisionByZero));
    assert_eq!(dim("1 mod s0").at(&values), Err(ShapeError::DivisionByZero));
    assert_eq!(dim("s1*2").at(&values), Err(ShapeError::Overflow));
    assert_eq!(dim("s1*s1*s1").at(&values), Err(ShapeError::Overflow));
    assert_eq!(dim("s2").at(&values), Err(ShapeError::Unbound(Symbol(2))));
    assert_eq!(dim("s0").floordiv(&Dim::from(0)), Err(ShapeError::DivisionByZero));
    assert_eq!(dim("s0").mul(&Dim::from(i64::MAX)).and_then(|d| d.add(&d)), Err(ShapeError::Overflow));
    assert_eq!(Dim::from(i64::MAX).add(&Dim::from(1)), Err(ShapeError::Overflow));
}

#[test]
fn sizes_do_not_grow_without_end() {
    let sum = (0..40).try_fold(Dim::from(0), |sum, i| sum.add(&Dim::from(Symbol(i)))).expect("40 terms");
    assert_eq!(sum.mul(&sum).and_then(|square| square.mul(&square)), Err(ShapeError::TooLarge));
    let smallest = (0..100).try_fold(Dim::from(0), |least, i| least.min(&Dim::from(Symbol(i))));
    assert_eq!(smallest, Err(ShapeError::TooLarge));
    let mut deep = Dim::from(Symbol(0));
    let error = (1..).find_map(|i| match deep.modulo(&Dim::from(Symbol(i))) {
        Ok(deeper) => {
            deep = deeper;
            None
        }
        Err(error) => Some(error),
    });
    assert_eq!(error, Some(ShapeError::TooLarge));
}

/// Found by the property tests: 2^63 − 1 = 3·k + 1.
#[test]
fn multiples_count_modulo_the_divisor_before_they_overflow() {
    assert_eq!(dim("(s0 mod 3)*9223372036854775807 mod 3"), dim("s0 mod 3"));
}

#[test]
fn faulty_text_is_told_where() {
    let scope = sizes();
    let fault = |text: &str| Dim::parse(text, &scope).expect_err(text).to_string();
    assert_eq!(fault(""), "expected a number, a symbol or `(` at column 1");
    assert_eq!(fault("s0 +"), "expected a number, a symbol or `(` at column 5");
    assert_eq!(fault("s0 s1"), "expected an operator at column 4");
    assert_eq!(fault("(s0"), "expected `)` at column 4");
    assert_eq!(fault("min(s0; 3)"), "expected `,` or `)` at column 7");
    assert_eq!(fault("s0*s9"), "unknown symbol s9 at column 4");
    assert_eq!(fault("s00"), "expected a number, a symbol or `(` at column 1");
    assert_eq!(fault("s0 + 9223372036854775808"), "the number is too large at column 6");
    assert_eq!(fault("s0 + 12x"), "expected a number at column 6");
    assert_eq!(fault("s0 floordiv 0"), "division by zero at column 4");
    assert_eq!(fault("9223372036854775807 + 1"), "integer overflow at column 21");
    assert_eq!(fault("s0 – 1"), "expected an operator at column 4");
    assert_eq!(fault(&"(".repeat(100_000)), "nested too deeply at column 101");
    assert_eq!(fault(&"-".repeat(100_000)), "nested too deeply at column 101");
    assert_eq!(dim("-9223372036854775808"), Dim::from(i64::MIN));
}
