//! The dynamic sizes of a capture's inputs, and the symbols that they get.
//!
//! The rules are Dynamo's: a size is static until it differs from that of an earlier entry, at the same source. Sizes of 0 and 1 are always
//! static, and so are those of parameters and of modules' buffers. Equal sizes share a symbol, except those that are marked. The strides of
//! a tensor without gaps are products of its sizes. A stride over a gap is static until it changes, and then the gap is assumed to be as
//! before: `x[:, :-1]` omits as much of each row, `x.chunk(2, 1)[0]` takes as large a part.

use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::BTreeSet,
    rc::Rc,
    sync::Arc,
};

use dynamlir_guards::{DYNAMIC_MARKS, Extent, Relation, SizeRelation, Source, SourceId, TensorMatch};
use dynamlir_shapes::{Dim, Dimension, Interval, LARGEST_SIZE, Symbol};
use pyo3::{
    exceptions::PyRuntimeError,
    prelude::*,
    types::{PyList, PyTuple},
};
use rustc_hash::FxHashMap;

use dynamlir_symint::{Declared, SizeGuard, Sizes, declared::Line, sym_int};

use super::decisions::{Decided, DecidedSize};
use crate::{
    graph_break::{GraphBreak, reason},
    state::{Capture, Input, Outcome},
};

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
    declared: Option<Rc<Declared>>,
    /// Created with the first symbol.
    sizes: OnceCell<Py<Sizes>>,
    /// The sources of the dynamic sizes, strides and ints.
    extents: RefCell<Vec<(SourceId, Extent, Dim)>>,
    /// The tensors with marks for dynamic sizes, even if these are static: 0 and 1 are.
    marked: RefCell<Vec<SourceId>>,
    /// The symbol for each number, except those of marked sizes.
    equal: RefCell<FxHashMap<i64, Symbol>>,
    /// The sources of the symbols, as [`dynamlir_frame::ValueHistory`] knows them.
    places: RefCell<Vec<(Symbol, String)>>,
    /// The sizes of this call, by their sources.
    seen: RefCell<Vec<(String, u64)>>,
    /// The sources whose numbers Python needs.
    blamed: RefCell<BTreeSet<String>>,
    /// The number of assumptions when the guards were taken.
    guarded: Cell<usize>,
    /// True if all sources are blamed, because our own code cannot handle an expression.
    all_blamed: Cell<bool>,
    /// The stand-ins of the ints that were found.
    ints: RefCell<Vec<(SourceId, Py<PyAny>)>>,
    /// The decisions about the sizes of tensors.
    decided: RefCell<Vec<DecidedSize>>,
    /// The decisions of an earlier capture, if it is repeated.
    replays: Option<Arc<Decided>>,
    /// The dynamic numbers, by their sources, with their current values.
    values: RefCell<Vec<(String, String)>>,
    /// The sources whose writes are left out.
    left_out: RefCell<Vec<SourceId>>,
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
    pub(super) fn may_be_symbol(&self, expression: &String) -> bool {
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
    pub(super) fn declared_int(&self, expression: &str) -> Option<Line> {
        self.declared.as_ref()?.int(expression)
    }

    /// Returns a line over a declared number as an expression.
    pub(super) fn declared_size(&self, py: Python<'_>, line: Line) -> Option<Dim> {
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
    pub(super) fn int_of<'py>(&self, py: Python<'py>, source: SourceId) -> Option<Bound<'py, PyAny>> {
        let ints = self.ints.borrow();
        ints.iter().find(|(at, _)| *at == source).map(|(_, size)| size.bind(py).clone())
    }

    /// Returns the source of the int that this size represents.
    pub(super) fn int_that_is(&self, py: Python<'_>, size: &Dim) -> PyResult<Option<SourceId>> {
        for (source, stands) in self.ints.borrow().iter() {
            if sym_int::node_of(stands.bind(py))?.get().dim(py) == *size {
                return Ok(Some(*source));
            }
        }
        Ok(None)
    }

    /// Records the stand-in of the int at a source. `extent` says how the symbol follows from the int.
    pub(super) fn note_int(&self, source: SourceId, extent: Extent, length: Dim, place: String, size: &Bound<'_, PyAny>) {
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
    fn is_found(&self) -> bool {
        !self.extents.borrow().is_empty()
    }

    /// Returns the relation that the sizes must satisfy.
    pub fn relation(&self, py: Python<'_>) -> Option<Relation> {
        let (ranges, assumed) = self.sizes()?.bind(py).get().assumptions();
        Some(Relation::Sizes(SizeRelation { extents: self.extents.borrow().clone(), ranges, assumed }))
    }
}

/// The sizes and strides of a fake, some of which are symbols.
pub(crate) struct Sized {
    pub(super) sizes: Vec<Dim>,
    pub(super) strides: Vec<Dim>,
}

/// The mark of one of a tensor's sizes.
enum Mark {
    None,
    Static,
    /// From `mark_dynamic`: it must be dynamic, within this range. Also from `mark_unbacked`, though 0 and 1 have their own graphs.
    Dynamic(Interval),
    /// From `maybe_mark_dynamic`.
    Weak,
}

impl<'py> Capture<'py> {
    /// Returns the sizes of a tensor found at a source, if one of them is dynamic.
    pub(crate) fn dynamic_sizes(&self, real: &Bound<'py, PyAny>, source: SourceId, expression: &str) -> Outcome<Option<Sized>> {
        let dynamic = &self.sizes;
        if dynamic.how == Dynamic::Never {
            return Ok(None);
        }
        // Other classes may override operations, and so observe these queries.
        let class = real.get_type();
        if !(class.is(dynamlir_cpython_abi::import(self.py, "torch")?.getattr("Tensor")?) || self.torch.is_parameter_class(class.as_any()))
        {
            return Ok(None);
        }
        let has = |mark: &str| real.getattr_opt(mark).map(|found| found.is_some());
        if let Some(decided) = &dynamic.replays {
            if decided.marked.iter().any(|marked| marked == expression) {
                dynamic.marked.borrow_mut().push(source);
            }
        } else if dynamlir_interpreter::suspended(|| Ok::<_, PyErr>(has(DYNAMIC_MARKS[0])? || has(DYNAMIC_MARKS[1])?))? {
            dynamic.marked.borrow_mut().push(source);
        }
        let meta = self.guarded(dynamlir_interpreter::suspended(|| TensorMatch::of(real)))?.meta;
        let numbers = |list: &[Option<i64>]| list.iter().map(|number| number.unwrap_or(0)).collect::<Vec<_>>();
        let (sizes, strides) = (numbers(&meta.sizes), numbers(&meta.strides));
        let held = self.torch.is_parameter_class(class.as_any()) || matches!(self.guards.get(source), Source::Member(..));
        let mut symbols: Vec<Dim> = sizes.iter().map(|size| Dim::from(*size)).collect();
        for (d, &size) in sizes.iter().enumerate() {
            if size < 2 {
                if !held {
                    self.note_size(expression, d, size);
                }
                continue;
            }
            let place = place(expression, d);
            if let Some(line) = dynamic.declared.as_ref().and_then(|declared| declared.size(real, d)) {
                if self.may_vary(&place)
                    && let Some(size) = dynamic.declared_size(self.py, line)
                {
                    let symbols_of = size.to_expr().symbols().into_iter().map(|symbol| (symbol, place.clone()));
                    dynamic.places.borrow_mut().extend(symbols_of);
                    dynamic.extents.borrow_mut().push((source, Extent::Size(d), size.clone()));
                    symbols[d] = size;
                }
                continue;
            }
            let decided = match &dynamic.replays {
                Some(decided) => decided.at(&place).map(|size| (size.range, size.marked)),
                None => self.range_of(real, d, size, &place, held)?,
            };
            if !held {
                self.note_size(expression, d, size);
            }
            let Some((range, marked)) = decided else { continue };
            let symbol = self.symbol(size, range, marked, &place);
            dynamic.note_value(&place, &size);
            dynamic.decided.borrow_mut().push(DecidedSize { place: place.clone(), symbol, range, marked });
            dynamic.places.borrow_mut().push((symbol, place));
            dynamic.extents.borrow_mut().push((source, Extent::Size(d), Dim::from(symbol)));
            symbols[d] = Dim::from(symbol);
        }
        let strides = self.strides_of(expression, &sizes, &strides, &symbols);
        if symbols.iter().all(|size| size.known().is_some()) {
            return Ok(None);
        }
        for (d, stride) in strides.iter().enumerate().filter(|(_, stride)| stride.known().is_none()) {
            dynamic.extents.borrow_mut().push((source, Extent::Stride(d), stride.clone()));
        }
        self.layers.note_unrepeatable();
        Ok(Some(Sized { sizes: symbols, strides }))
    }

    /// Returns the range of the dynamic size at a source, and true if its tensor is marked so; `None` if the size is static.
    fn range_of(&self, real: &Bound<'py, PyAny>, d: usize, size: i64, place: &str, held: bool) -> Outcome<Option<(Interval, bool)>> {
        let mark = if self.sizes.how == Dynamic::Declared { Mark::Static } else { mark_of(real, d)? };
        let all = || (Interval::new(2, LARGEST_SIZE), false);
        Ok(match mark {
            Mark::Static => None,
            // Outside the marked range it is static.
            Mark::Dynamic(range) => range.contains(size).then_some((range, true)),
            Mark::Weak => self.may_vary(place).then(all),
            Mark::None if held => None,
            Mark::None => self.varies(place, size).then(all),
        })
    }

    /// Returns strides as products of sizes, as far as they are, from the innermost dimension on.
    fn strides_of(&self, expression: &str, sizes: &[i64], strides: &[i64], symbols: &[Dim]) -> Vec<Dim> {
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        order.sort_by_key(|&d| (strides[d], std::cmp::Reverse(d)));
        let mut made: Vec<Dim> = strides.iter().map(|stride| Dim::from(*stride)).collect();
        let (mut expected, mut now) = (Dim::from(1), 1_i64);
        for d in order {
            if strides[d] == 0 {
                continue;
            }
            made[d] = if strides[d] == now {
                expected.clone()
            } else {
                self.over_gap(&format!("{expression}.stride()[{d}]"), strides[d], now, &expected)
            };
            // The stride of a dimension of size 1 implies nothing about the outer dimensions: heads within a row, if there is one head.
            if sizes[d] != 1 {
                now = strides[d].saturating_mul(sizes[d]);
                expected = made[d].mul(&symbols[d]).unwrap_or_else(|_| Dim::from(now));
            }
        }
        made
    }

    /// Returns the expression, with the given current value, for a stride that would be another one without a gap.
    fn over_gap(&self, place: &str, stride: i64, now: i64, expected: &Dim) -> Dim {
        let (gap, factor) = (stride - now, if now > 0 && stride % now == 0 { stride / now } else { 0 });
        let changes = self.varies(place, stride);
        let stays = |what: &str, value: i64| {
            let place = format!("{place} {what}");
            let changes = self.history.as_ref().is_none_or(|known| known.is_number(&place, value.cast_unsigned()));
            self.sizes.seen.borrow_mut().push((place, value.cast_unsigned()));
            !changes
        };
        let (same_gap, same_factor) = (stays("beyond", gap), stays("times", factor) && factor > 0);
        self.sizes.seen.borrow_mut().push((place.to_owned(), stride.cast_unsigned()));
        let made = match changes {
            true if same_gap => expected.add(&Dim::from(gap)),
            true if same_factor => expected.mul(&Dim::from(factor)),
            _ => Ok(Dim::from(stride)),
        };
        made.unwrap_or_else(|_| Dim::from(stride))
    }

    fn note_size(&self, expression: &str, d: usize, size: i64) {
        self.sizes.seen.borrow_mut().push((place(expression, d), size.cast_unsigned()));
    }

    /// Returns true if the number at a source was never needed.
    fn may_vary(&self, place: &str) -> bool {
        self.history.as_ref().is_some_and(|known| known.may_be_number(place))
    }

    fn varies(&self, place: &str, size: i64) -> bool {
        match self.sizes.how {
            Dynamic::Never | Dynamic::Declared => false,
            Dynamic::Changed => self.history.as_ref().is_some_and(|known| known.is_number(place, size.cast_unsigned())),
            Dynamic::All => self.may_vary(place),
        }
    }

    fn symbol(&self, size: i64, range: Interval, marked: bool, place: &str) -> Symbol {
        let sizes = self.sizes.known(self.py).bind(self.py).get();
        let shared = self.sizes.replays.as_ref().and_then(|decided| decided.at(place)).filter(|_| !marked);
        if let Some(DecidedSize { symbol, .. }) = shared {
            return if sizes.is_declared(*symbol) { *symbol } else { sizes.declare(size, range) };
        }
        if marked {
            let symbol = sizes.declare(size, range);
            sizes.mark(symbol, place.to_owned());
            return symbol;
        }
        *self.sizes.equal.borrow_mut().entry(size).or_insert_with(|| sizes.declare(size, range))
    }

    /// Records the sizes of this call for later ones, and guards the assumptions about dynamic sizes.
    pub(crate) fn guard_sizes(&self) {
        self.sizes.guarded.set(self.assumptions());
        if let Some(floats) = &self.history {
            self.sizes.seen.borrow().iter().for_each(|(place, value)| floats.note(place.clone(), *value));
        }
        if let Some(relation) = self.sizes.relation(self.py).filter(|_| self.sizes.is_found()) {
            self.guards.relate(relation);
        }
    }

    /// Returns a metadata guard without the dynamic parts. A tensor that is marked here may be unmarked at another call.
    pub(crate) fn loosened(&self, mut matched: TensorMatch, source: SourceId) -> TensorMatch {
        if self.sizes.marked.borrow().contains(&source) {
            matched.no_dynamic_indices = false;
        }
        if self.sizes.any() {
            for (_, extent, _) in self.sizes.extents.borrow().iter().filter(|(at, ..)| *at == source) {
                match extent {
                    Extent::Size(d) => matched.meta.sizes[*d] = None,
                    Extent::Stride(d) => matched.meta.strides[*d] = None,
                    Extent::Int | Extent::Negated => {}
                }
            }
        }
        matched
    }

    fn assumptions(&self) -> usize {
        self.sizes.sizes().map_or(0, |sizes| sizes.bind(self.py).get().guard_count())
    }

    /// Passes the facts about the symbols to the session, with the size of the graph input that each is bound to.
    pub(crate) fn tell_sizes(&self, inputs: &[Input]) -> PyResult<()> {
        let Some(sizes) = self.sizes.sizes().filter(|_| self.sizes.any()) else { return Ok(()) };
        if self.assumptions() != self.sizes.guarded.get() {
            return Err(PyRuntimeError::new_err("something was assumed of sizes when the guards had been taken"));
        }
        let position = |place: Option<(SourceId, usize)>| {
            let Some((source, d)) = place else { return Some(None) };
            Some(Some((inputs.iter().position(|input| input.source == source)?, d)))
        };
        let bound = self.sizes.bound(self.py).into_iter().map(position).collect::<Option<Vec<_>>>();
        let bound = bound.ok_or_else(|| PyRuntimeError::new_err("a size that varies is in none of the graph's inputs"))?;
        self.recorder().note_sizes(sizes, bound, self.sizes.places())?;
        Ok(())
    }

    /// Returns sizes and strides as Python lists.
    pub(crate) fn as_lists(&self, sized: Sized) -> PyResult<Bound<'py, PyTuple>> {
        let Some(sizes) = self.sizes.sizes() else { return Ok(PyTuple::empty(self.py)) };
        let list = |dims: Vec<Dim>| -> PyResult<Bound<'py, PyList>> {
            let values = dims.into_iter().map(|dim| sym_int::wrap(sizes.bind(self.py), dim)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(self.py, values)
        };
        PyTuple::new(self.py, [list(sized.sizes)?, list(sized.strides)?])
    }

    /// Returns the reason why the capture must be discarded because of sizes: one that cannot be expressed.
    pub(crate) fn failed_size(&self) -> Option<GraphBreak> {
        if let Some(found) = self.undecided_size() {
            return Some(found);
        }
        let message = self.sizes.sizes()?.bind(self.py).get().failure()?;
        self.sizes.all_blamed.set(true);
        Some(GraphBreak { reason: reason::DYNAMIC_SHAPE, message, location: Vec::new() })
    }

    /// Returns the exception that the call raises if a marked size turned out to be a single number.
    pub(crate) fn violated(&self) -> PyResult<Option<PyErr>> {
        let Some(sizes) = self.sizes.sizes() else { return Ok(None) };
        let Some((place, value, guards)) = sizes.bind(self.py).get().marked_as_number() else { return Ok(None) };
        let line = |guard: &SizeGuard| guard.location.first().map(|(file, line, name)| format!(" at {file}:{line} in {name}"));
        let why: Vec<_> = guards.iter().map(|guard| format!("{}{}", guard.predicate, line(guard).unwrap_or_default())).collect();
        let message = format!(
            "Constraints violated ({place})! It was marked dynamic, but the program takes it for {value}: {}. Mark it as \
             maybe_mark_dynamic does if that is right.",
            why.join("; ")
        );
        let class = dynamlir_cpython_abi::import(self.py, "torch.fx.experimental.symbolic_shapes")?.getattr("ConstraintViolationError")?;
        Ok(Some(PyErr::from_value(class.call1((message,))?)))
    }

    /// Records that Python needs the numbers that a size is computed from.
    pub(crate) fn blame_size(&self, size: &Dim) {
        self.sizes.blamed.borrow_mut().extend(self.sizes.places_of(size));
    }
}

fn place(expression: &str, d: usize) -> String {
    format!("{expression}.size()[{d}]")
}

/// Returns the mark of a dimension of a tensor, as stored by `torch._dynamo.mark_dynamic` and its relatives.
fn mark_of(real: &Bound<'_, PyAny>, d: usize) -> Outcome<Mark> {
    let says = |name: &str| -> PyResult<bool> { real.getattr_opt(name)?.map_or(Ok(false), |marks| marks.contains(d)) };
    Ok(dynamlir_interpreter::suspended(|| {
        if says("_dynamo_static_indices")? {
            return Ok::<_, PyErr>(Mark::Static);
        }
        if says(DYNAMIC_MARKS[0])? {
            let mut range = Interval::new(2, LARGEST_SIZE);
            if let Some(ranges) = real.getattr_opt("_dynamo_dynamic_range")? {
                for entry in ranges.try_iter()? {
                    let entry = entry?;
                    if entry.getattr("dim")?.extract::<usize>()? == d {
                        let bound = |name: &str| entry.getattr(name)?.extract::<Option<i64>>();
                        range = Interval::new(bound("min")?.unwrap_or(2).max(2), bound("max")?.unwrap_or(LARGEST_SIZE).min(LARGEST_SIZE));
                    }
                }
            }
            return Ok(Mark::Dynamic(range));
        }
        if says(DYNAMIC_MARKS[1])? {
            return Ok(Mark::Dynamic(Interval::new(2, LARGEST_SIZE)));
        }
        Ok(if says("_dynamo_weak_dynamic_indices")? { Mark::Weak } else { Mark::None })
    })?)
}
