//! Parses expressions from text.
//!
//! ```text
//! sum     ::= product (("+" | "-") product)*
//! product ::= factor (("*" | "floordiv" | "ceildiv" | "mod") factor)*      from left to right
//! factor  ::= "-" factor | number | symbol | "(" sum ")" | ("min" | "max") "(" sum ("," sum)* ")"
//! symbol  ::= "s" digits
//! ```
//!
//! The text is not trusted; each fault is an error at a position.

use std::str::FromStr;

use crate::{
    Dim, Dimension, Scope, Symbol,
    error::{Result, ShapeError},
};

/// The largest nesting depth of parentheses, calls and signs.
const MAX_NESTING: u32 = 100;

/// An error in a text, with its position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{fault} at column {}", position + 1)]
pub struct ParseError {
    /// The number of bytes before the fault.
    pub position: usize,
    /// The kind of fault.
    pub fault: Fault,
}

/// A kind of fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// This was expected here.
    #[error("expected {0}")]
    Expected(&'static str),
    /// The number does not fit an `i64`.
    #[error("the number is too large")]
    NumberTooLarge,
    /// A symbol with this name is not declared.
    #[error("unknown symbol {0}")]
    UnknownSymbol(Symbol),
    /// Parentheses are nested too deeply.
    #[error("nested too deeply")]
    TooDeep,
    /// The operation here does not have a result.
    #[error(transparent)]
    Shape(#[from] ShapeError),
}

impl FromStr for Dim {
    type Err = ParseError;
    /// Accepts any symbols.
    fn from_str(text: &str) -> std::result::Result<Self, ParseError> {
        parse(text, None)
    }
}

impl Dim {
    /// Accepts only symbols of the scope.
    pub fn parse(text: &str, scope: &Scope) -> std::result::Result<Self, ParseError> {
        parse(text, Some(scope))
    }
}

fn parse(text: &str, scope: Option<&Scope>) -> std::result::Result<Dim, ParseError> {
    let mut parser = Parser { text, at: 0, depth: 0, scope };
    let sum = parser.sum()?;
    match parser.peek() {
        None => Ok(sum),
        Some(_) => Err(parser.expected("an operator")),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
    scope: Option<&'a Scope>,
}

type Parsed<T = Dim> = std::result::Result<T, ParseError>;

impl<'a> Parser<'a> {
    /// The next character that is not a space.
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.text[self.at..].chars().next()
    }
    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }
    /// Consumes the letters and digits that come next.
    fn word(&mut self) -> &'a str {
        self.peek();
        let rest = &self.text[self.at..];
        &rest[..rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len())]
    }
    fn take_word(&mut self, wanted: &str) -> bool {
        let found = self.word() == wanted;
        if found {
            self.at += wanted.len();
        }
        found
    }
    fn fault(position: usize, fault: impl Into<Fault>) -> ParseError {
        ParseError { position, fault: fault.into() }
    }
    fn expected(&mut self, what: &'static str) -> ParseError {
        self.peek();
        Self::fault(self.at, Fault::Expected(what))
    }
    fn require(&mut self, wanted: char, what: &'static str) -> Parsed<()> {
        if self.take(wanted) { Ok(()) } else { Err(self.expected(what)) }
    }

    fn sum(&mut self) -> Parsed {
        let mut sum = self.product()?;
        loop {
            let position = self.at;
            let result = if self.take('+') {
                sum.add(&self.product()?)
            } else if self.take('-') {
                sum.sub(&self.product()?)
            } else {
                return Ok(sum);
            };
            sum = result.map_err(|fault| Self::fault(position, fault))?;
        }
    }

    fn product(&mut self) -> Parsed {
        let mut product = self.factor()?;
        loop {
            self.peek();
            let position = self.at;
            let operation: fn(&Dim, &Dim) -> Result<Dim> = if self.take('*') {
                Dim::mul
            } else if self.take_word("floordiv") {
                Dim::floordiv
            } else if self.take_word("ceildiv") {
                Dim::ceildiv
            } else if self.take_word("mod") {
                Dim::modulo
            } else {
                return Ok(product);
            };
            product = operation(&product, &self.factor()?).map_err(|fault| Self::fault(position, fault))?;
        }
    }

    fn factor(&mut self) -> Parsed {
        self.peek();
        let position = self.at;
        if self.depth == MAX_NESTING {
            return Err(Self::fault(position, Fault::TooDeep));
        }
        self.depth += 1;
        let factor = if self.take('(') {
            let sum = self.sum()?;
            self.require(')', "`)`")?;
            sum
        } else if self.take('-') {
            // The smallest number cannot be negated, so the sign is parsed with the number that follows.
            if self.peek().is_some_and(|c| c.is_ascii_digit()) {
                self.number(position, true)?
            } else {
                Dim::from(0).sub(&self.factor()?).map_err(|fault| Self::fault(position, fault))?
            }
        } else if self.take_word("min") {
            self.extreme(Dim::min)?
        } else if self.take_word("max") {
            self.extreme(Dim::max)?
        } else if self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.number(position, false)?
        } else {
            self.symbol()?
        };
        self.depth -= 1;
        Ok(factor)
    }

    fn number(&mut self, position: usize, negative: bool) -> Parsed {
        let digits = self.word();
        let text = if negative { format!("-{digits}") } else { digits.to_owned() };
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(self.expected("a number"));
        }
        self.at += digits.len();
        text.parse().map(|value: i64| Dim::from(value)).map_err(|_| Self::fault(position, Fault::NumberTooLarge))
    }

    fn symbol(&mut self) -> Parsed {
        let word = self.word();
        // Accepts only the printed form: `s01` would be a second name for `s1`.
        let number = word.strip_prefix('s').and_then(|digits| digits.parse().ok()).filter(|number| format!("s{number}") == word);
        let Some(symbol) = number.map(Symbol) else { return Err(self.expected("a number, a symbol or `(`")) };
        if self.scope.is_some_and(|scope| !scope.contains(symbol)) {
            return Err(Self::fault(self.at, Fault::UnknownSymbol(symbol)));
        }
        self.at += word.len();
        Ok(Dim::from(symbol))
    }

    fn extreme(&mut self, operation: fn(&Dim, &Dim) -> Result<Dim>) -> Parsed {
        self.require('(', "`(`")?;
        let mut found = self.sum()?;
        loop {
            let position = self.at;
            if self.take(',') {
                found = operation(&found, &self.sum()?).map_err(|fault| Self::fault(position, fault))?;
            } else {
                self.require(')', "`,` or `)`")?;
                return Ok(found);
            }
        }
    }
}
