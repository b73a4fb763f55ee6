//! Expressions, with parentheses where precedence requires them.

use dynamlir_bytecode::{Const, repr};

use super::{Printer, strings};
use crate::ast::{Arg, Clause, Comprehension, Expr, Makes, Unary};

/// The binding strength of an expression, loosest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// `yield`, and everything that binds more tightly.
    Any,
    /// A tuple without parentheses, and everything that binds more tightly.
    NoYield,
    /// `lambda`, `… if … else …`
    Test,
    Or,
    And,
    Not,
    Comparison,
    BitOr,
    BitXor,
    BitAnd,
    Shift,
    Arithmetic,
    Term,
    Unary,
    Power,
    Await,
    Primary,
    Atom,
}

fn binary_level(symbol: &str) -> Level {
    match symbol {
        "|" => Level::BitOr,
        "^" => Level::BitXor,
        "&" => Level::BitAnd,
        "<<" | ">>" => Level::Shift,
        "+" | "-" => Level::Arithmetic,
        "**" => Level::Power,
        _ => Level::Term,
    }
}

fn next(level: Level) -> Level {
    match level {
        Level::BitOr => Level::BitXor,
        Level::BitXor => Level::BitAnd,
        Level::BitAnd => Level::Shift,
        Level::Shift => Level::Arithmetic,
        Level::Arithmetic => Level::Term,
        _ => Level::Unary,
    }
}

impl Printer {
    /// Returns an expression, in parentheses if it binds less tightly than `least`.
    pub(crate) fn expression(&mut self, expr: &Expr<'_>, least: Level) -> String {
        let (level, text) = self.leveled(expr);
        if level < least { format!("({text})") } else { text }
    }

    fn leveled(&mut self, expr: &Expr<'_>) -> (Level, String) {
        match expr {
            Expr::Name(name) => (Level::Atom, (*name).to_owned()),
            Expr::Const(value) => self.constant(value),
            Expr::AssertionError => (Level::Atom, "AssertionError".to_owned()),
            Expr::Attribute(value, name) => (Level::Primary, format!("{}.{name}", self.primary(value))),
            Expr::Subscript(value, key) => (Level::Primary, format!("{}[{}]", self.primary(value), self.subscript(key))),
            Expr::Call(function, arguments) => {
                let text = format!("{}({})", self.primary(function), self.arguments(arguments));
                (Level::Primary, text)
            }
            Expr::Unary(operator, operand) => match operator {
                Unary::Not => (Level::Not, format!("not {}", self.expression(operand, Level::Not))),
                Unary::Minus => (Level::Unary, format!("-{}", self.expression(operand, Level::Unary))),
                Unary::Plus => (Level::Unary, format!("+{}", self.expression(operand, Level::Unary))),
                Unary::Invert => (Level::Unary, format!("~{}", self.expression(operand, Level::Unary))),
            },
            // `'%s' % (a, b)` would be compiled as an f-string.
            Expr::Binary("%", left, right) if matches!(**right, Expr::Tuple(_)) && matches!(**left, Expr::Const(Const::Str(_))) => {
                let Expr::Const(text) = **left else { return (Level::Any, String::new()) };
                (Level::Term, format!("{} % ({})", strings::constant(self, text), self.tuple_of(right)))
            }
            Expr::Binary(symbol, left, right) => {
                let level = binary_level(symbol);
                let (left, right) = if level == Level::Power {
                    (self.expression(left, Level::Await), self.expression(right, Level::Unary))
                } else {
                    (self.expression(left, level), self.expression(right, next(level)))
                };
                (level, format!("{left} {symbol} {right}"))
            }
            // `a and (b and c)` is `a and b and c`.
            Expr::Bool(true, left, right) => {
                (Level::And, format!("{} and {}", self.expression(left, Level::And), self.expression(right, Level::And)))
            }
            Expr::Bool(false, left, right) => {
                (Level::Or, format!("{} or {}", self.expression(left, Level::Or), self.expression(right, Level::Or)))
            }
            Expr::Compare(left, rest) => {
                let mut text = self.expression(left, Level::BitOr);
                for (symbol, right) in rest {
                    text.push_str(&format!(" {symbol} {}", self.expression(right, Level::BitOr)));
                }
                (Level::Comparison, text)
            }
            Expr::IfElse(test, then, other) => {
                let (then, test) = (self.expression(then, Level::Or), self.expression(test, Level::Or));
                (Level::Test, format!("{then} if {test} else {}", self.expression(other, Level::Test)))
            }
            Expr::Lambda(parameters, body) => {
                let parameters = self.parameters(parameters, false);
                let space = if parameters.is_empty() { "" } else { " " };
                (Level::Test, format!("lambda{space}{parameters}: {}", self.expression(body, Level::Test)))
            }
            Expr::Tuple(items) if items.is_empty() => (Level::Atom, "()".to_owned()),
            Expr::Tuple(items) => (Level::NoYield, self.tuple(items)),
            Expr::List(items) => (Level::Atom, format!("[{}]", self.items(items))),
            // `{}` is a dict, `{*()}` is not.
            Expr::Set(items) if items.is_empty() => (Level::Atom, "{*()}".to_owned()),
            Expr::Set(items) => (Level::Atom, format!("{{{}}}", self.items(items))),
            Expr::Dict(pairs) => {
                let pairs: Vec<String> = pairs
                    .iter()
                    .map(|(key, value)| match key {
                        Some(key) => format!("{}: {}", self.expression(key, Level::Test), self.expression(value, Level::Test)),
                        None => format!("**{}", self.expression(value, Level::BitOr)),
                    })
                    .collect();
                (Level::Atom, format!("{{{}}}", pairs.join(", ")))
            }
            Expr::Starred(value) => (Level::NoYield, format!("*{}", self.expression(value, Level::BitOr))),
            Expr::DoubleStarred(value) => (Level::NoYield, format!("**{}", self.expression(value, Level::BitOr))),
            Expr::Format(pieces) => (Level::Atom, strings::format(self, pieces)),
            Expr::Template(pieces) => (Level::Atom, strings::template(self, pieces)),
            Expr::Comprehension(made) => (Level::Atom, self.comprehension(made, true)),
            Expr::Yield(value) if matches!(**value, Expr::Const(Const::None)) => (Level::Any, "yield".to_owned()),
            Expr::Yield(value) => (Level::Any, format!("yield {}", self.expression(value, Level::NoYield))),
            Expr::YieldFrom(value) => (Level::Any, format!("yield from {}", self.expression(value, Level::Test))),
            Expr::Await(value) => (Level::Await, format!("await {}", self.expression(value, Level::Primary))),
            // It always has its own parentheses.
            Expr::Group(value) => (Level::Atom, format!("({})", self.expression(value, Level::Any))),
            Expr::Walrus(name, value) => (Level::Atom, format!("({name} := {})", self.expression(value, Level::Test))),
            Expr::Slice(..) => {
                self.problem = Some("a slice outside of a subscript".to_owned());
                (Level::Atom, "slice".to_owned())
            }
            _ => {
                self.problem = Some("half of a statement as a value".to_owned());
                (Level::Atom, "...".to_owned())
            }
        }
    }

    /// Returns an expression that `.`, `[` or `(` follows.
    fn primary(&mut self, expr: &Expr<'_>) -> String {
        // `1.real` would be a float.
        match expr {
            Expr::Const(Const::Int(_)) => format!("({})", self.expression(expr, Level::Any)),
            _ => self.expression(expr, Level::Primary),
        }
    }

    fn items(&mut self, items: &[Expr<'_>]) -> String {
        items.iter().map(|item| self.item(item)).collect::<Vec<_>>().join(", ")
    }

    /// Returns one of several expressions between commas.
    fn item(&mut self, item: &Expr<'_>) -> String {
        self.expression(item, if matches!(item, Expr::Starred(_)) { Level::NoYield } else { Level::Test })
    }

    fn tuple_of(&mut self, expr: &Expr<'_>) -> String {
        match expr {
            Expr::Tuple(items) => self.tuple(items),
            expr => self.item(expr),
        }
    }

    fn tuple(&mut self, items: &[Expr<'_>]) -> String {
        match items {
            [one] => self.item(one) + ",",
            items => self.items(items),
        }
    }

    fn subscript(&mut self, key: &Expr<'_>) -> String {
        match key {
            Expr::Slice(..) => self.slice(key),
            Expr::Tuple(items) if !items.is_empty() && items.iter().any(|item| matches!(item, Expr::Slice(..))) => {
                let parts: Vec<String> = items.iter().map(|item| self.slice(item)).collect();
                if parts.len() == 1 { format!("{},", parts[0]) } else { parts.join(", ") }
            }
            key => self.expression(key, Level::NoYield),
        }
    }

    fn slice(&mut self, part: &Expr<'_>) -> String {
        let Expr::Slice(lower, upper, step) = part else { return self.item(part) };
        let mut bound = |bound: &Option<Box<Expr<'_>>>| match bound.as_deref() {
            None | Some(Expr::Const(Const::None)) => String::new(),
            Some(bound) => self.expression(bound, Level::Test),
        };
        let (lower, upper) = (bound(lower), bound(upper));
        match step.as_deref() {
            None => format!("{lower}:{upper}"),
            // To the compiler, `a[::None]` differs from `a[:]`.
            Some(step) => format!("{lower}:{upper}:{}", self.expression(step, Level::Test)),
        }
    }

    /// Returns the arguments of a call.
    pub(crate) fn arguments(&mut self, arguments: &[Arg<'_>]) -> String {
        if let [Arg::Positional(Expr::Comprehension(made))] = arguments
            && made.makes == Makes::Generator
        {
            return self.comprehension(made, false);
        }
        let parts: Vec<String> = arguments
            .iter()
            .map(|argument| match argument {
                Arg::Positional(value) => self.expression(value, Level::Test),
                Arg::Star(value) => format!("*{}", self.expression(value, Level::Test)),
                Arg::Keyword(name, value) => format!("{name}={}", self.expression(value, Level::Test)),
                Arg::DoubleStar(value) => format!("**{}", self.expression(value, Level::Test)),
            })
            .collect();
        parts.join(", ")
    }

    fn comprehension(&mut self, made: &Comprehension<'_>, parentheses: bool) -> String {
        let mut text = match &made.element {
            unpacked @ (Expr::Starred(_) | Expr::DoubleStarred(_)) => self.expression(unpacked, Level::Any),
            element => self.expression(element, Level::Test),
        };
        if let Some(value) = &made.value {
            text = format!("{text}: {}", self.expression(value, Level::Test));
        }
        for clause in &made.clauses {
            text.push(' ');
            match clause {
                Clause::For { target, iter, is_async } => {
                    let prefix = super::prefix(*is_async);
                    let target = self.expression(target, Level::NoYield);
                    text.push_str(&format!("{prefix}for {target} in {}", self.expression(iter, Level::Or)));
                }
                Clause::If(test) => text.push_str(&format!("if {}", self.expression(test, Level::Or))),
            }
        }
        match made.makes {
            Makes::List => format!("[{text}]"),
            Makes::Set | Makes::Dict => format!("{{{text}}}"),
            Makes::Generator if parentheses => format!("({text})"),
            Makes::Generator => text,
        }
    }

    fn constant(&mut self, value: &Const) -> (Level, String) {
        match value {
            Const::Int(digits) => (if digits.starts_with('-') { Level::Unary } else { Level::Atom }, digits.clone()),
            Const::Float(value) => float(*value),
            Const::Complex(real, imaginary) => complex(*real, *imaginary).unwrap_or_else(|| {
                self.problem = Some("a complex number that no literal makes".to_owned());
                (Level::Atom, repr::repr(value))
            }),
            Const::Ellipsis => (Level::Atom, "...".to_owned()),
            Const::Tuple(items) => {
                let parts: Vec<String> = items.iter().map(|item| self.constant(item).1).collect();
                (Level::Atom, if parts.len() == 1 { format!("({},)", parts[0]) } else { format!("({})", parts.join(", ")) })
            }
            // The operand `{1, 2}` of `in`.
            Const::FrozenSet(items) if !items.is_empty() => {
                let parts: Vec<String> = items.iter().map(|item| self.constant(item).1).collect();
                (Level::Atom, format!("{{{}}}", parts.join(", ")))
            }
            Const::FrozenSet(_) | Const::Slice(_) | Const::Code(_) | Const::Other(_) => {
                self.problem = Some("a constant that no literal makes".to_owned());
                (Level::Atom, repr::repr(value))
            }
            value => (Level::Atom, repr::repr(value)),
        }
    }
}

/// Returns a float literal. Infinity and NaN do not have literals, but the compiler folds expressions for them.
fn float(value: f64) -> (Level, String) {
    if value.is_nan() {
        return (Level::Arithmetic, "1e309 - 1e309".to_owned());
    }
    let text = if value.is_infinite() { "1e309".to_owned() } else { repr::float(value.abs()) };
    if value.is_sign_negative() { (Level::Unary, format!("-{text}")) } else { (Level::Atom, text) }
}

/// Returns a complex literal, or a sum or negation that folds to it. The signs of zeros matter: `0.0 + 1j` and `-0.0 + 1j` fold to the same
/// value.
fn complex(real: f64, imaginary: f64) -> Option<(Level, String)> {
    if real.is_nan() || imaginary.is_nan() {
        return None;
    }
    let part = float(imaginary.abs()).1 + "j";
    Some(match (real.is_sign_negative(), imaginary.is_sign_negative()) {
        (false, false) if real == 0.0 => (Level::Atom, part),
        (true, true) if real == 0.0 => (Level::Unary, format!("-{part}")),
        // No folded expression results in these.
        (true, false) | (false, true) if real == 0.0 && imaginary == 0.0 => return None,
        (true, false) if real == 0.0 => (Level::Unary, format!("-(0.0 - {part})")),
        (_, true) if imaginary == 0.0 => (Level::Unary, format!("-({} + {part})", float(-real).1)),
        (_, negative) => (Level::Arithmetic, format!("{} {} {part}", float(real).1, if negative { '-' } else { '+' })),
    })
}
