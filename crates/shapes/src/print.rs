//! Expressions as text, in the spelling of MLIR's affine expressions where they have one: `s0*4 + 1`, `s0 floordiv 8`, `s0 mod 8`, `min(s0,
//! 128)`. [`crate::parse`] parses it back to the same value.

use std::fmt;

use crate::{
    Dim, Expr, Symbol,
    expr::{Atom, Call, Function, Term},
};

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.0)
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.known() {
            Some(value) => write!(f, "{value}"),
            None => self.to_expr().fmt(f),
        }
    }
}

impl fmt::Debug for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.terms().is_empty() {
            return f.write_str("0");
        }
        for (i, term) in self.terms().iter().enumerate() {
            // The smallest number cannot be negated, so it keeps its sign.
            let minus = term.coefficient < 0 && term.coefficient != i64::MIN;
            f.write_str(match (i, minus) {
                (0, false) => "",
                (0, true) => "-",
                (_, false) => " + ",
                (_, true) => " - ",
            })?;
            write_term(f, term, if minus { -term.coefficient } else { term.coefficient }, i == 0 && minus)?;
        }
        Ok(())
    }
}

/// Writes a term. `signed`: a sign precedes it, which binds tighter than a division.
fn write_term(f: &mut fmt::Formatter<'_>, term: &Term, factor: i64, signed: bool) -> fmt::Result {
    let atoms = &term.monomial.0;
    let parenthesised = signed || factor != 1 || atoms.len() > 1;
    for (i, atom) in atoms.iter().enumerate() {
        if i > 0 {
            f.write_str("*")?;
        }
        match atom {
            Atom::Symbol(symbol) => write!(f, "{symbol}")?,
            Atom::Call(call) => write_call(f, call, parenthesised)?,
        }
    }
    match (atoms.is_empty(), factor) {
        (true, _) => write!(f, "{factor}"),
        (false, 1) => Ok(()),
        (false, _) => write!(f, "*{factor}"),
    }
}

fn write_call(f: &mut fmt::Formatter<'_>, call: &Call, parenthesised: bool) -> fmt::Result {
    let name = match call.function {
        Function::FloorDiv => "floordiv",
        Function::Mod => "mod",
        Function::Min => "min",
        Function::Max => "max",
    };
    if matches!(call.function, Function::Min | Function::Max) {
        write!(f, "{name}(")?;
        for (i, operand) in call.operands.iter().enumerate() {
            write!(f, "{}{operand}", if i > 0 { ", " } else { "" })?;
        }
        return f.write_str(")");
    }
    f.write_str(if parenthesised { "(" } else { "" })?;
    for (i, operand) in call.operands.iter().enumerate() {
        if i > 0 {
            write!(f, " {name} ")?;
        }
        // A product on the left does not need parentheses, but they help the reader.
        if operand.as_symbol().is_some() || operand.known().is_some_and(|value| value >= 0) {
            write!(f, "{operand}")?;
        } else {
            write!(f, "({operand})")?;
        }
    }
    f.write_str(if parenthesised { ")" } else { "" })
}
