//! The dynamic sizes of a capture.

use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::BTreeSet,
    rc::Rc,
    sync::Arc,
};

use dynamlir_guards::{Extent, Relation, SizeRelation, SourceId};
use dynamlir_shapes::{Dim, Symbol};
use dynamlir_symint::{Declared, Sizes, declared::Line, sym_int};
use pyo3::prelude::*;
use rustc_hash::FxHashMap;

use crate::state::size_decisions::{Decided, DecidedSize};

/// The sizes that may be dynamic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dynamic {
    /// None.
    #[default]
    Never,
    /// Those that are declared.
    Declared,
    /// Those that had another value before, and those that are marked.
    Changed,
    /// All.
    All,
}

impl Dynamic {
    /// Converts the argument `dynamic`.
    #[must_use]
    pub fn of(dynamic: Option<bool>) -> Self {
        match dynamic {
            None => Self::Changed,
            Some(true) => Self::All,
            Some(false) => Self::Never,
        }
    }
}

/// The dynamic sizes of one capture.
#[derive(Default)]
pub(crate) struct DynamicSizes {
    pub how: Dynamic,
    /// True if the graph's nodes define the unbacked symbols.
    pub uncut: bool,
    /// The declarations, if sizes are declared.
    pub(crate) declared: Option<Rc<Declared>>,
    /// Created with the first symbol.
    pub(crate) sizes: OnceCell<Py<Sizes>>,
    /// The sources of the dynamic sizes, strides and ints.
    pub(crate) extents: RefCell<Vec<(SourceId, Extent, Dim)>>,
    /// The tensors with marks for dynamic sizes, even if these are static: 0 and 1 are.
    pub(crate) marked: RefCell<Vec<SourceId>>,
    /// The symbol for each number, except those of marked sizes.
    pub(crate) equal: RefCell<FxHashMap<i64, Symbol>>,
    /// The sources of the symbols, as [`dynamlir_frame::ValueHistory`] knows them.
    pub(crate) places: RefCell<Vec<(Symbol, String)>>,
    /// The sizes of this call, by their sources.
    pub(crate) seen: RefCell<Vec<(String, u64)>>,
    /// The sources whose numbers Python needs.
    pub(crate) blamed: RefCell<BTreeSet<String>>,
    /// The number of assumptions when the guards were taken.
    pub(crate) guarded: Cell<usize>,
    /// True if all sources are blamed, because our own code cannot handle an expression.
    pub(crate) all_blamed: Cell<bool>,
    /// The stand-ins of the ints that were found.
    pub(crate) ints: RefCell<Vec<(SourceId, Py<PyAny>)>>,
    /// The decisions about the sizes of tensors.
    pub(crate) decided: RefCell<Vec<DecidedSize>>,
    /// The decisions of an earlier capture, if it is repeated.
    pub(crate) replays: Option<Arc<Decided>>,
    /// The dynamic numbers, by their sources, with their current values.
    pub(crate) values: RefCell<Vec<(String, String)>>,
    /// The sources whose writes are left out.
    pub(crate) left_out: RefCell<Vec<SourceId>>,
}

impl DynamicSizes {
    pub fn new(how: Dynamic, declared: Option<Rc<Declared>>, uncut: bool, replays: Option<Arc<Decided>>) -> Self {
        Self { how, uncut, declared, replays, ..Self::default() }
    }

    /// Returns the decisions about sizes. `expression` returns the expression of a source.
    pub(crate) fn decided(&self, expression: impl Fn(SourceId) -> String) -> Decided {
        Decided {
            sizes: self.decided.borrow().clone(),
            ints: self.ints.borrow().iter().map(|(source, _)| expression(*source)).collect(),
            marked: self.marked.borrow().iter().map(|source| expression(*source)).collect(),
            expected: self.sizes().map(|sizes| sizes.get().expected()).unwrap_or_default(),
            left_out: self.left_out.borrow().iter().map(|source| expression(*source)).collect(),
        }
    }

    /// Returns true if a symbol may represent the int at an expression. When an earlier capture is repeated, only the same ints may get
    /// one.
    pub(crate) fn may_be_symbol(&self, expression: &String) -> bool {
        self.replays.as_ref().is_none_or(|decided| decided.ints.contains(expression))
    }

    /// Returns true if a write may be left out when the place already holds the value. When an earlier capture is repeated, only the same
    /// writes may be left out.
    pub(crate) fn may_leave_out(&self, expression: impl FnOnce() -> String) -> bool {
        self.replays.as_ref().is_none_or(|decided| decided.left_out.contains(&expression()))
    }

    /// Records that a write is left out.
    pub(crate) fn leave_out(&self, stored: SourceId) {
        self.left_out.borrow_mut().push(stored);
    }

    /// Records the current value of a dynamic number.
    pub(crate) fn note_value(&self, place: &str, value: &impl ToString) {
        self.values.borrow_mut().push((place.to_owned(), value.to_string()));
    }

    /// Returns the dynamic numbers, by their sources, with their current values.
    pub(crate) fn values(&self) -> Vec<(String, String)> {
        self.values.borrow().clone()
    }

    /// Returns true if sizes are declared, so that the program outlives the call that it is captured from: it then computes with its own
    /// values, and guards are not checked.
    pub(crate) fn is_declared(&self) -> bool {
        self.how == Dynamic::Declared
    }

    /// Returns the declaration of the int at an expression, if it is declared as dynamic.
    pub(crate) fn declared_int(&self, expression: &str) -> Option<Line> {
        self.declared.as_ref()?.int(expression)
    }

    /// Returns a line over a declared number as an expression.
    pub(crate) fn declared_size(&self, py: Python<'_>, line: Line) -> Option<Dim> {
        let sizes = self.known(py).bind(py).get();
        Some(sizes.made(self.declared.as_ref()?.expression(line, sizes)))
    }

    /// Returns the facts about the symbols, if any symbol exists.
    pub fn sizes(&self) -> Option<&Py<Sizes>> {
        self.sizes.get()
    }

    /// Returns the facts about the symbols, creating them on first use.
    pub(crate) fn known(&self, py: Python<'_>) -> &Py<Sizes> {
        self.sizes.get_or_init(|| {
            let made = Sizes::default();
            made.replay_expected(self.replays.as_ref().map(|decided| decided.expected.clone()));
            Py::new(py, made).unwrap_or_else(|_| unreachable!("a class of ours can be made"))
        })
    }

    /// Returns the stand-in of the int at a source.
    pub(crate) fn int_of<'py>(&self, py: Python<'py>, source: SourceId) -> Option<Bound<'py, PyAny>> {
        let ints = self.ints.borrow();
        ints.iter().find(|(at, _)| *at == source).map(|(_, size)| size.bind(py).clone())
    }

    /// Returns the source of the int that this size represents.
    pub(crate) fn int_that_is(&self, py: Python<'_>, size: &Dim) -> PyResult<Option<SourceId>> {
        for (source, stands) in self.ints.borrow().iter() {
            if sym_int::node_of(stands.bind(py))?.get().dim(py) == *size {
                return Ok(Some(*source));
            }
        }
        Ok(None)
    }

    /// Records the stand-in of the int at a source. `extent` says how the symbol follows from the int.
    pub(crate) fn note_int(&self, source: SourceId, extent: Extent, length: Dim, place: String, size: &Bound<'_, PyAny>) {
        if let Some(symbol) = length.as_symbol() {
            self.places.borrow_mut().push((symbol, place));
        }
        self.extents.borrow_mut().push((source, extent, length));
        self.ints.borrow_mut().push((source, size.clone().unbind()));
    }

    /// Returns true if a size is dynamic.
    pub fn any(&self) -> bool {
        self.sizes.get().is_some_and(|sizes| sizes.get().any())
    }

    /// Returns the sources of the symbols.
    pub fn places(&self) -> Vec<String> {
        self.places.borrow().iter().map(|(_, place)| place.clone()).collect()
    }

    /// Returns the sources of symbols for ints. The stand-in of an int is on the CPU, which a graph on another device does not accept.
    pub fn places_of_ints(&self) -> Vec<String> {
        let ints = self.ints.borrow();
        let extents = self.extents.borrow();
        let found = extents.iter().filter(|(source, ..)| ints.iter().any(|(at, _)| at == source));
        found.flat_map(|(.., size)| self.places_of(size)).collect()
    }

    /// Returns the sources of the symbols in a size.
    pub fn places_of(&self, size: &Dim) -> Vec<String> {
        let symbols = size.to_expr().symbols();
        self.places.borrow().iter().filter(|(symbol, _)| symbols.contains(symbol)).map(|(_, place)| place.clone()).collect()
    }

    /// Returns the sources whose numbers Python needs.
    pub fn blamed(&self) -> Vec<String> {
        if self.all_blamed.get() { self.places() } else { self.blamed.borrow().iter().cloned().collect() }
    }

    /// Returns the source and dimension to which a symbol is bound.
    pub fn binding(&self, symbol: Symbol) -> Option<(SourceId, usize)> {
        self.extents.borrow().iter().find_map(|(source, extent, size)| match extent {
            Extent::Size(d) if size.as_symbol() == Some(symbol) => Some((*source, *d)),
            Extent::Int | Extent::Negated if size.as_symbol() == Some(symbol) => Some((*source, 0)),
            _ => None,
        })
    }

    /// Returns the sources and dimensions to which the symbols are bound, by symbol number; `None` for unbacked symbols.
    pub fn bound(&self, py: Python<'_>) -> Vec<Option<(SourceId, usize)>> {
        let Some(sizes) = self.sizes() else { return Vec::new() };
        sizes.bind(py).get().symbols().into_iter().map(|symbol| self.binding(symbol)).collect()
    }

    /// Returns true if a dynamic size is part of the call's inputs.
    pub(crate) fn is_found(&self) -> bool {
        !self.extents.borrow().is_empty()
    }

    /// Returns the relation that the sizes must satisfy.
    pub fn relation(&self, py: Python<'_>) -> Option<Relation> {
        let (ranges, assumed) = self.sizes()?.bind(py).get().assumptions();
        Some(Relation::Sizes(SizeRelation { extents: self.extents.borrow().clone(), ranges, assumed }))
    }
}
