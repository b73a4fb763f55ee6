//! Properties of random expressions: simplified forms have the same value as the originals, printed text parses back, and intervals and
//! decisions are correct for every value that a scope allows.
#![expect(clippy::expect_used, reason = "a test whose sizes overflow has failed")]

mod common;

use dynamlir_shapes::{Bindings, Dim, Dimension, Interval, Predicate, Relation, Scope, ShapeError, Symbol, SymbolInfo, floordiv, modulo};
use proptest::prelude::*;

const SYMBOLS: u32 = 3;

/// An expression as written, not simplified.
#[derive(Clone, Debug)]
enum Tree {
    Number(i64),
    Symbol(u32),
    Node(char, Box<Tree>, Box<Tree>),
}

impl Tree {
    /// Its value by the definition of each operation.
    fn value(&self, values: &[i64]) -> Result<i64, ShapeError> {
        let (op, left, right) = match self {
            Self::Number(value) => return Ok(*value),
            Self::Symbol(symbol) => return Ok(values[*symbol as usize]),
            Self::Node(op, left, right) => (op, left.value(values)?, right.value(values)?),
        };
        let checked = |value: Option<i64>| value.ok_or(ShapeError::Overflow);
        match op {
            '+' => checked(left.checked_add(right)),
            '-' => checked(left.checked_sub(right)),
            '*' => checked(left.checked_mul(right)),
            '/' => floordiv(left, right),
            '%' => modulo(left, right),
            '<' => Ok(left.min(right)),
            _ => Ok(left.max(right)),
        }
    }
    /// The same, simplified at each step.
    fn dim(&self) -> Result<Dim, ShapeError> {
        let (op, left, right) = match self {
            Self::Number(value) => return Ok(Dim::from(*value)),
            Self::Symbol(symbol) => return Ok(Dim::from(Symbol(*symbol))),
            Self::Node(op, left, right) => (op, left.dim()?, right.dim()?),
        };
        match op {
            '+' => left.add(&right),
            '-' => left.sub(&right),
            '*' => left.mul(&right),
            '/' => left.floordiv(&right),
            '%' => left.modulo(&right),
            '<' => left.min(&right),
            _ => left.max(&right),
        }
    }
    /// The expression with operands of commutative operations exchanged, which must not make a difference.
    fn mirrored(&self) -> Self {
        match self {
            Self::Node(op @ ('+' | '*' | '<' | '>'), left, right) => Self::Node(*op, Box::new(right.mirrored()), Box::new(left.mirrored())),
            Self::Node(op, left, right) => Self::Node(*op, Box::new(left.mirrored()), Box::new(right.mirrored())),
            leaf => leaf.clone(),
        }
    }
}

fn trees() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        2 => (0..SYMBOLS).prop_map(Tree::Symbol),
        2 => (-9_i64..=9).prop_map(Tree::Number),
        1 => prop::sample::select(vec![16_i64, 12, 64, -8, i64::MAX, i64::MIN]).prop_map(Tree::Number),
    ];
    leaf.prop_recursive(5, 24, 2, |inner| {
        let op = prop::sample::select(vec!['+', '+', '-', '*', '*', '/', '/', '%', '%', '<', '>']);
        (op, inner.clone(), inner).prop_map(|(op, left, right)| Tree::Node(op, Box::new(left), Box::new(right)))
    })
}

fn values() -> impl Strategy<Value = Vec<i64>> {
    let value = prop_oneof![4 => -20_i64..=20, 1 => -1_000_000_i64..=1_000_000];
    prop::collection::vec(value, SYMBOLS as usize)
}

fn bindings(values: &[i64]) -> Bindings {
    (0..).map(Symbol).zip(values.iter().copied()).collect()
}

/// A scope, and values that it allows.
fn scopes() -> impl Strategy<Value = (Scope, Vec<Vec<i64>>)> {
    let symbol = (-6_i64..=6, 0_i64..=12, 1_i64..=4, any::<bool>());
    prop::collection::vec(symbol, SYMBOLS as usize).prop_flat_map(|infos| {
        let mut scope = Scope::new();
        let mut allowed = Vec::new();
        for (least, few, divisor, bounded) in infos {
            // The range starts at a multiple, so that it contains values.
            let least = least * divisor;
            let range = if bounded { Interval::new(least, least + few) } else { Interval::at_least(least) };
            scope.fresh(SymbolInfo { range, hint: None, divisor });
            allowed.push((0..=if bounded { few / divisor } else { 30 }).prop_map(move |n| least + n * divisor));
        }
        (Just(scope), prop::collection::vec(allowed, 6))
    })
}

fn relations() -> impl Strategy<Value = Relation> {
    prop::sample::select(vec![Relation::Eq, Relation::Ne, Relation::Lt, Relation::Le, Relation::Gt, Relation::Ge])
}

proptest! {
    #![proptest_config(common::config(2000))]

    #[test]
    fn a_simplified_expression_has_the_value_of_the_tree(tree in trees(), values in values()) {
        if let (Ok(expected), Ok(dim)) = (tree.value(&values), tree.dim()) {
            // Products are multiplied out, which may overflow, with an error, where the tree does not.
            let value = dim.at(&bindings(&values));
            prop_assert!(value == Ok(expected) || value == Err(ShapeError::Overflow), "{} is {:?}, not {}", dim, value, expected);
        }
    }

    #[test]
    fn text_reads_back_as_the_same_value(tree in trees()) {
        if let Ok(dim) = tree.dim() {
            let text = dim.to_string();
            prop_assert_eq!(text.parse(), Ok(dim), "{}", text);
        }
    }

    #[test]
    fn the_order_of_writing_does_not_show(tree in trees()) {
        if let (Ok(dim), Ok(mirrored)) = (tree.dim(), tree.mirrored().dim()) {
            prop_assert_eq!(dim, mirrored);
        }
    }

    #[test]
    fn sums_of_multiples_leave_divisions(tree in trees(), factor in -3_i64..=3, d in 1_i64..=9) {
        // ⌊(x + f·d·s0) / d⌋ = ⌊x/d⌋ + f·s0, in form, for every x.
        let shifted = |x: &Dim| x.add(&Dim::from(Symbol(0)).mul(&Dim::from(factor * d))?)?.floordiv(&Dim::from(d));
        let apart = |x: &Dim| x.floordiv(&Dim::from(d))?.add(&Dim::from(Symbol(0)).mul(&Dim::from(factor))?);
        if let Ok(x) = tree.dim()
            && let (Ok(shifted), Ok(apart)) = (shifted(&x), apart(&x))
        {
            prop_assert_eq!(shifted, apart);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[s0-9 ()*+,a-z-]{0,24}") {
        if let Ok(dim) = text.parse::<Dim>() {
            prop_assert_eq!(dim.to_string().parse(), Ok(dim));
        }
    }

    #[test]
    fn bounds_divisors_and_ranges_are_sound(tree in trees(), (scope, samples) in scopes()) {
        let Ok(dim) = tree.dim() else { return Ok(()) };
        let (bounds, divisor) = (scope.bounds(&dim.to_expr()), scope.divisor(&dim.to_expr()));
        let simple = dim.simplify(&scope);
        for values in samples {
            let Ok(value) = dim.at(&bindings(&values)) else { continue };
            prop_assert!(bounds.contains(value), "{} = {} in {:?}", dim, value, bounds);
            prop_assert!(i128::from(value) == 0 || i128::from(value) % i128::from(divisor) == 0, "{} = {} by {}", dim, value, divisor);
            if let Ok(simple) = &simple {
                prop_assert_eq!(simple.at(&bindings(&values)), Ok(value), "{} as {}", dim, simple);
            }
        }
    }

    #[test]
    fn decisions_are_right(left in trees(), relation in relations(), right in trees(), (scope, samples) in scopes()) {
        let (Ok(left), Ok(right)) = (left.dim(), right.dim()) else { return Ok(()) };
        let predicate = Predicate::new(left, relation, right);
        let Some(decided) = scope.decide(&predicate) else { return Ok(()) };
        for values in samples {
            let values = bindings(&values);
            if let (Ok(left), Ok(right)) = (predicate.left.at(&values), predicate.right.at(&values)) {
                prop_assert_eq!(relation.holds(left, right), decided, "{} where {:?}", predicate, values);
            }
        }
    }

    #[test]
    fn assumptions_leave_the_values_that_fulfil_them(
        guards in prop::collection::vec((trees(), relations(), trees()), 1..4),
        asked in trees(),
        (mut scope, samples) in scopes(),
    ) {
        let mut assumed = Vec::new();
        for (left, relation, right) in guards {
            let (Ok(left), Ok(right)) = (left.dim(), right.dim()) else { continue };
            let predicate = Predicate::new(left, relation, right);
            if scope.clone().assume(&predicate).is_ok() {
                scope.assume(&predicate).expect("as its clone did");
                assumed.push(predicate);
            }
        }
        let holds = |values: &Bindings| assumed.iter().all(|p| {
            matches!((p.left.at(values), p.right.at(values)), (Ok(left), Ok(right)) if p.relation.holds(left, right))
        });
        let Ok(asked) = asked.dim() else { return Ok(()) };
        for values in samples.iter().map(|values| bindings(values)).filter(holds) {
            prop_assert!(scope.admits(&values), "{:?} under {:?}: {:?}", values, assumed, scope);
            if let (Ok(value), Ok(simple)) = (asked.at(&values), asked.simplify(&scope)) {
                prop_assert_eq!(simple.at(&values), Ok(value), "{} as {}", asked, simple);
                prop_assert!(scope.bounds(&simple.to_expr()).contains(value));
            }
        }
    }
}
