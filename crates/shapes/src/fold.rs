//! Evaluating expressions with values other than numbers, for example as values of a program.

use crate::{
    Dim, Expr, Symbol,
    expr::{Atom, Call, Function, Term},
};

/// The operations for evaluating expressions. Each function corresponds to the function of [`Dimension`](crate::Dimension) with its name.
#[expect(missing_docs, reason = "the names say it")]
pub trait Algebra {
    /// The type of values.
    type Value: Clone;

    fn number(&mut self, value: i64) -> Self::Value;
    fn symbol(&mut self, symbol: Symbol) -> Self::Value;
    fn add(&mut self, a: Self::Value, b: Self::Value) -> Self::Value;
    fn mul(&mut self, a: Self::Value, b: Self::Value) -> Self::Value;
    fn floordiv(&mut self, a: Self::Value, b: Self::Value) -> Self::Value;
    fn modulo(&mut self, a: Self::Value, b: Self::Value) -> Self::Value;
    fn min(&mut self, a: Self::Value, b: Self::Value) -> Self::Value;
    fn max(&mut self, a: Self::Value, b: Self::Value) -> Self::Value;
}

impl Dim {
    /// Evaluates it in an algebra.
    pub fn fold<A: Algebra>(&self, algebra: &mut A) -> A::Value {
        match self.known() {
            Some(value) => algebra.number(value),
            None => self.to_expr().fold(algebra),
        }
    }
}

impl Expr {
    /// Evaluates it in an algebra: the sum of its terms, each the product of its factors.
    pub fn fold<A: Algebra>(&self, algebra: &mut A) -> A::Value {
        let terms: Vec<_> = self.terms().iter().map(|term| fold_term(term, algebra)).collect();
        let sum = terms.into_iter().reduce(|sum, term| algebra.add(sum, term));
        sum.unwrap_or_else(|| algebra.number(0))
    }
}

fn fold_term<A: Algebra>(term: &Term, algebra: &mut A) -> A::Value {
    let mut product = None;
    for atom in &term.monomial.0 {
        let factor = match atom {
            Atom::Symbol(symbol) => algebra.symbol(*symbol),
            Atom::Call(call) => fold_call(call, algebra),
        };
        product = Some(match product {
            None => factor,
            Some(product) => algebra.mul(product, factor),
        });
    }
    match product {
        Some(product) if term.coefficient == 1 => product,
        Some(product) => {
            let coefficient = algebra.number(term.coefficient);
            algebra.mul(product, coefficient)
        }
        None => algebra.number(term.coefficient),
    }
}

fn fold_call<A: Algebra>(call: &Call, algebra: &mut A) -> A::Value {
    let operands: Vec<_> = call.operands.iter().map(|operand| operand.fold(algebra)).collect();
    let result = operands.into_iter().reduce(|a, b| match call.function {
        Function::FloorDiv => algebra.floordiv(a, b),
        Function::Mod => algebra.modulo(a, b),
        Function::Min => algebra.min(a, b),
        Function::Max => algebra.max(a, b),
    });
    result.unwrap_or_else(|| algebra.number(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists the operations.
    struct Words;

    impl Algebra for Words {
        type Value = String;

        fn number(&mut self, value: i64) -> String {
            value.to_string()
        }
        fn symbol(&mut self, symbol: Symbol) -> String {
            symbol.to_string()
        }
        fn add(&mut self, a: String, b: String) -> String {
            format!("add({a}, {b})")
        }
        fn mul(&mut self, a: String, b: String) -> String {
            format!("mul({a}, {b})")
        }
        fn floordiv(&mut self, a: String, b: String) -> String {
            format!("floordiv({a}, {b})")
        }
        fn modulo(&mut self, a: String, b: String) -> String {
            format!("mod({a}, {b})")
        }
        fn min(&mut self, a: String, b: String) -> String {
            format!("min({a}, {b})")
        }
        fn max(&mut self, a: String, b: String) -> String {
            format!("max({a}, {b})")
        }
    }

    #[test]
    fn sums_of_products_are_folded() {
        let folded = |text: &str| text.parse::<Dim>().expect("parses").fold(&mut Words);
        assert_eq!(folded("7"), "7");
        assert_eq!(folded("s0"), "s0");
        assert_eq!(folded("s0*4 + 1"), "add(mul(s0, 4), 1)");
        assert_eq!(folded("s0*s1 - s1"), "add(mul(s0, s1), mul(s1, -1))");
        assert_eq!(folded("s0 floordiv 8 + s0 mod 8").matches("div").count(), 1);
        assert_eq!(folded("min(s0, s1, 4)").matches("min").count(), 2);
        assert_eq!(folded("max(s0, 4)").matches("max").count(), 1);
    }
}
