//! Each kernel has its own symbols: `s0`, `s1`, … in the order in which they occur in its loops and windows, so that kernels differing only
//! in the names of symbols are equal. Their declarations must match, including the expected sizes (hints): loops are cut by these.
//!
//! ```mlir
//! dynamo.launch @kernels::@exp_0(%x, %out) sizes [s7] : (memref<?x128xf32, …>, memref<?x128xf32, …>) -> ()
//! func.func @exp_0(%in: memref<?x128xf32, …>, %out: memref<?x128xf32, …>, %s0: index)
//!     attributes {dynamo.domain = #dynamo.sizes<s0, 128>, dynamo.symbols = [#dynamo.symbol<s0, argument = 2>], …}
//! ```

use std::collections::{HashMap, hash_map::Entry};

use dynamlir_dialect::{
    ir::{
        Attr, AttrValue, Block,
        sizes::{SizeSymbol, SymbolSite},
    },
    ops::FullOp,
};
use dynamlir_shapes::{Algebra, Dim, Dimension, Result, Scope, ShapeError, Symbol};

use super::{Window, domain::Loops};

/// A mapping from a graph's symbols to those of one kernel.
#[derive(Default)]
pub struct Renaming {
    /// The graph's symbols, in the order of the kernel's symbols.
    graph: Vec<Symbol>,
    own: HashMap<Symbol, Symbol>,
}

impl Renaming {
    /// The renaming for a kernel with these loops and windows, and this body.
    pub fn of(loops: &Loops, windows: &[Window], body: Block) -> Self {
        let mut renaming = Self::default();
        loops.sizes.iter().for_each(|size| renaming.meet(size));
        for window in windows {
            window.sizes.iter().chain(&window.strides).for_each(|size| renaming.meet(size));
        }
        let constants = body.ops().into_iter().filter_map(FullOp::cast).filter_map(|full| Dim::read(full.value()));
        constants.for_each(|size| renaming.meet(&size));
        renaming
    }

    fn meet(&mut self, size: &Dim) {
        if size.known().is_some() {
            return;
        }
        for symbol in size.to_expr().symbols() {
            let next = Symbol(self.graph.len() as u32);
            if let Entry::Vacant(entry) = self.own.entry(symbol) {
                entry.insert(next);
                self.graph.push(symbol);
            }
        }
    }

    /// The sizes that a launch passes.
    pub fn sizes(&self) -> Vec<Dim> {
        self.graph.iter().copied().map(Dim::from).collect()
    }

    /// The symbol declarations of a kernel with this number of other arguments.
    pub fn declarations(&self, arguments: usize, scope: &Scope) -> Vec<SizeSymbol> {
        let declared = |(at, symbol): (usize, &Symbol)| SizeSymbol {
            symbol: self.own[symbol],
            place: Some(SymbolSite::Index { argument: arguments + at }),
            info: scope.info(*symbol).copied().unwrap_or_default(),
        };
        self.graph.iter().enumerate().map(declared).collect()
    }

    /// Rewrites the sizes to the kernel's symbols.
    pub fn all(&self, sizes: &[Dim]) -> Result<Vec<Dim>> {
        sizes.iter().map(|size| self.one(size)).collect()
    }

    /// Rewrites a constant of the kernel, which may be a size.
    pub fn constant(&self, value: Attr) -> Result<Attr> {
        match Dim::read(value).filter(|size| size.known().is_none()) {
            Some(size) => Ok(Dim::write(value.ctx(), &self.one(&size)?)),
            None => Ok(value),
        }
    }

    fn one(&self, size: &Dim) -> Result<Dim> {
        if size.known().is_some() { Ok(size.clone()) } else { size.fold(&mut Renamed(self)) }
    }
}

/// Rewrites expressions to the kernel's symbols.
struct Renamed<'a>(&'a Renaming);

impl Algebra for Renamed<'_> {
    type Value = Result<Dim>;

    fn number(&mut self, value: i64) -> Result<Dim> {
        Ok(value.into())
    }
    fn symbol(&mut self, symbol: Symbol) -> Result<Dim> {
        self.0.own.get(&symbol).map(|&own| own.into()).ok_or(ShapeError::Unbound(symbol))
    }
    fn add(&mut self, a: Result<Dim>, b: Result<Dim>) -> Result<Dim> {
        a?.add(&b?)
    }
    fn mul(&mut self, a: Result<Dim>, b: Result<Dim>) -> Result<Dim> {
        a?.mul(&b?)
    }
    fn floordiv(&mut self, a: Result<Dim>, b: Result<Dim>) -> Result<Dim> {
        a?.floordiv(&b?)
    }
    fn modulo(&mut self, a: Result<Dim>, b: Result<Dim>) -> Result<Dim> {
        a?.modulo(&b?)
    }
    fn min(&mut self, a: Result<Dim>, b: Result<Dim>) -> Result<Dim> {
        Dimension::min(&a?, &b?)
    }
    fn max(&mut self, a: Result<Dim>, b: Result<Dim>) -> Result<Dim> {
        Dimension::max(&a?, &b?)
    }
}
