//! Sizes of a kernel as values: its `index` arguments, and the sizes computed from them, each only once.

use std::{cell::RefCell, collections::HashMap};

use dynamlir_dialect::{
    ir::{Block, Builder, Op, Type, Value, sizes},
    pass::PassError,
};
use dynamlir_shapes::{Algebra, Dim, Scope, Symbol};

/// The sizes of one kernel.
pub struct Sizes {
    /// The known facts about its symbols.
    pub scope: Scope,
    /// The argument for each symbol.
    arguments: HashMap<Symbol, Value>,
    known: RefCell<HashMap<Dim, Value>>,
    /// The insertion point for computed sizes.
    pub start: Builder,
}

impl Sizes {
    /// The sizes that a kernel declares. Each is an argument.
    pub fn of(function: Op, start: Builder) -> Result<Self, PassError> {
        let args = function.body().map(Block::args).unwrap_or_default();
        let mut arguments = HashMap::new();
        for declared in sizes::declared(function) {
            let argument = match declared.place {
                Some(sizes::SymbolSite::Index { argument }) => {
                    args.get(argument).copied().filter(|value| value.ty() == Type::index(function.ctx()))
                }
                _ => None,
            };
            let Some(argument) = argument else {
                return Err(PassError::at(function, format!("expected {} to be an argument of the kernel of type index", declared.symbol)));
            };
            arguments.insert(declared.symbol, argument);
        }
        Ok(Self { scope: sizes::scope(function), arguments, known: RefCell::default(), start })
    }

    /// The values of the sizes that are not constant, in order: one for each `?` of a type.
    pub fn open(&self, sizes: &[Dim]) -> Vec<Value> {
        sizes.iter().filter(|size| size.known().is_none()).map(|size| self.value(size)).collect()
    }

    /// A size as a value.
    pub fn value(&self, size: &Dim) -> Value {
        if let Some(&value) = self.known.borrow().get(size) {
            return value;
        }
        let value = size.fold(&mut Computed { b: self.start, arguments: &self.arguments });
        self.known.borrow_mut().insert(size.clone(), value);
        value
    }
}

/// Lowers expressions to operations on indices. All symbols are declared, as the verifier of functions demands.
struct Computed<'a> {
    b: Builder,
    arguments: &'a HashMap<Symbol, Value>,
}

impl Algebra for Computed<'_> {
    type Value = Value;

    fn number(&mut self, value: i64) -> Value {
        self.b.index(value)
    }
    fn symbol(&mut self, symbol: Symbol) -> Value {
        self.arguments[&symbol]
    }
    fn add(&mut self, a: Value, b: Value) -> Value {
        self.b.addi(a, b)
    }
    fn mul(&mut self, a: Value, b: Value) -> Value {
        self.b.muli(a, b)
    }
    fn floordiv(&mut self, a: Value, b: Value) -> Value {
        self.b.floordivsi(a, b)
    }
    /// a − b · ⌊a / b⌋: the dialect's own remainder truncates.
    fn modulo(&mut self, a: Value, b: Value) -> Value {
        let whole = self.floordiv(a, b);
        let whole = self.mul(whole, b);
        self.b.subi(a, whole)
    }
    fn min(&mut self, a: Value, b: Value) -> Value {
        self.b.minsi(a, b)
    }
    fn max(&mut self, a: Value, b: Value) -> Value {
        self.b.maxsi(a, b)
    }
}
