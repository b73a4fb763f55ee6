//! `dynamo.symbols`: the symbols of a function, the facts known about them, and the sources of their values.

use dynamlir_shapes::{ParseError, Predicate, Scope, Symbol, SymbolInfo};

use super::algebra::{assume, info};
use crate::{
    ffi,
    ir::{Attr, AttrValue, Ctx, Op},
    ops,
};

/// The place where a function finds the value of a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolSite {
    /// It is a size of an argument.
    Size {
        /// The argument.
        argument: usize,
        /// Its dimension.
        dim: usize,
    },
    /// It is an argument of type `index`.
    Index {
        /// The argument.
        argument: usize,
    },
}

/// `#dynamo.symbol<…>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeSymbol {
    /// The symbol.
    pub symbol: Symbol,
    /// The place of its value; set for every symbol of an entry.
    pub place: Option<SymbolSite>,
    /// Its range, divisor and hint.
    pub info: SymbolInfo,
}

impl AttrValue for SizeSymbol {
    type Given<'a> = &'a Self;

    fn read(attr: Attr) -> Option<Self> {
        let mut fields = ffi::SymbolFields { number: 0, argument: -1, dim: -1, min: 0, max: 0, divisor: 1, hint: -1 };
        // SAFETY: the attribute is live; the fields are written if it is a symbol.
        if !unsafe { ffi::dynamoSymbolAttrGetFields(attr.raw(), &raw mut fields) } {
            return None;
        }
        let place = match (usize::try_from(fields.argument), usize::try_from(fields.dim)) {
            (Ok(argument), Ok(dim)) => Some(SymbolSite::Size { argument, dim }),
            (Ok(argument), Err(_)) => Some(SymbolSite::Index { argument }),
            _ => None,
        };
        Some(Self { symbol: Symbol(u32::try_from(fields.number).ok()?), place, info: info(&fields) })
    }

    fn try_write(ctx: Ctx, given: &Self) -> Option<Attr> {
        let (argument, dim) = match given.place {
            Some(SymbolSite::Size { argument, dim }) => (argument as i64, dim as i64),
            Some(SymbolSite::Index { argument }) => (argument as i64, -1),
            None => (-1, -1),
        };
        let range = given.info.range;
        let fields = ffi::SymbolFields {
            number: given.symbol.0.into(),
            argument,
            dim,
            min: range.lower().unwrap_or(0).max(0),
            max: range.upper().unwrap_or(i64::MAX),
            divisor: given.info.divisor,
            hint: given.info.hint.unwrap_or(-1),
        };
        // SAFETY: the fields are borrowed for the call.
        let raw = unsafe { ffi::dynamoSymbolAttrGet(ctx.raw(), &raw const fields) };
        (!raw.ptr.is_null()).then(|| Attr::from_raw(raw))
    }

    /// # Panics
    /// If the verifier rejects it; the diagnostic gives the reason.
    fn write(ctx: Ctx, given: &Self) -> Attr {
        Self::try_write(ctx, given).unwrap_or_else(|| panic!("not a declaration: {given:?}"))
    }
}

/// The symbols that the function declares.
pub fn declared(function: Op) -> Vec<SizeSymbol> {
    ops::SYMBOLS.of(function).unwrap_or_default().into_iter().filter_map(SizeSymbol::read).collect()
}

/// Declares the symbols of a function; an empty list declares nothing.
pub fn declare(function: Op, symbols: &[SizeSymbol]) {
    if symbols.is_empty() {
        ops::SYMBOLS.remove(function);
        return;
    }
    let attrs: Vec<Attr> = symbols.iter().map(|symbol| SizeSymbol::write(function.ctx(), symbol)).collect();
    ops::SYMBOLS.set(function, &attrs);
}

/// The facts known about sizes in a function.
pub fn scope(function: Op) -> Scope {
    let mut scope = Scope::new();
    for SizeSymbol { symbol, info, .. } in declared(function) {
        scope.declare(symbol, info);
    }
    if let Some(assumed) = ops::ASSUMED.of(function) {
        assume(&mut scope, &assumed);
    }
    scope
}

/// The predicates on a function's symbols that hold in each call, besides the declaration of each symbol.
///
/// # Errors
/// If the text has an unknown form, or refers to an undeclared symbol.
pub fn assumed(function: Op) -> Result<Vec<Predicate>, String> {
    let Some(text) = ops::ASSUMED.of(function) else { return Ok(Vec::new()) };
    let declared: Vec<Symbol> = declared(function).into_iter().map(|declared| declared.symbol).collect();
    let read = |part: &str| {
        let wrong = |what: String| format!("'{}' says \"{part}\": {what}", ops::ASSUMED.name());
        let predicate: Predicate = part.parse().map_err(|error: ParseError| wrong(error.to_string()))?;
        let symbols = [&predicate.left, &predicate.right].map(|size| size.to_expr().symbols()).into_iter().flatten();
        match symbols.into_iter().find(|symbol| !declared.contains(symbol)) {
            Some(symbol) => Err(wrong(format!("{symbol} is not declared"))),
            None => Ok(predicate),
        }
    };
    text.split("; ").map(read).collect()
}

/// Sets the predicates on a function's symbols that hold in each call.
pub fn set_assumed(function: Op, predicates: &[Predicate]) {
    let texts: Vec<String> = predicates.iter().map(ToString::to_string).collect();
    if !texts.is_empty() {
        ops::ASSUMED.set(function, &texts.join("; "));
    }
}

#[cfg(test)]
mod tests {
    use dynamlir_shapes::{Dim, Interval, Predicate, Relation};

    use super::*;
    use crate::{Session, context::module_op, ir::Block};

    const TEXT: &str = "module {
      func.func @main(%x: tensor<?x4xf32, #dynamo.sizes<s0, 4>>, %n: index) attributes {dynamo.entry, dynamo.symbols =
        [#dynamo.symbol<s0, argument = 0, dim = 0, max = 1024, divisor = 8, hint = 16>, #dynamo.symbol<s1, argument = 1, min = 0>]} {
        return
      }
    }";

    #[test]
    fn declarations_make_a_scope() {
        let session = Session::new();
        let module = session.parse(TEXT).expect("parses");
        let function = module_op(&module).body().map(Block::ops).expect("a body")[0];
        let found = declared(function);
        let first = SymbolInfo { range: Interval::new(2, 1024), hint: Some(16), divisor: 8 };
        let second = SymbolInfo { range: Interval::at_least(0), hint: None, divisor: 1 };
        assert_eq!(
            found,
            [
                SizeSymbol { symbol: Symbol(0), place: Some(SymbolSite::Size { argument: 0, dim: 0 }), info: first },
                SizeSymbol { symbol: Symbol(1), place: Some(SymbolSite::Index { argument: 1 }), info: second },
            ]
        );
        let scope = scope(function);
        let half: Dim = "s0 mod 4".parse().expect("parses");
        assert_eq!(scope.decide(&Predicate::new(half, Relation::Eq, 0)), Some(true));
        assert_eq!(scope.decide(&Predicate::new(Symbol(1), Relation::Ge, 1)), None);

        let written = ops::SYMBOLS.of(function);
        declare(function, &found);
        assert!(ops::SYMBOLS.of(function) == written);
        declare(function, &[]);
        assert!(!ops::SYMBOLS.is_on(function) && declared(function).is_empty());
    }

    #[test]
    fn what_no_symbol_can_be_is_refused() {
        let session = Session::new();
        let info = SymbolInfo { range: Interval::new(9, 15), hint: None, divisor: 8 };
        assert!(SizeSymbol::try_write(session.ctx(), &SizeSymbol { symbol: Symbol(0), place: None, info }).is_none());
        assert!(session.take_diagnostics().contains("there is no multiple of 8 from 9 to 15"));
        assert_eq!(SizeSymbol::read(Attr::unit(session.ctx())), None);
    }
}
