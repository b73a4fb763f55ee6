//! Which sizes of a capture's inputs vary, and the symbols that they get.
//!
//! As Dynamo does it: a size is a number until it is another one than for an entry before, at the same source. Sizes of 0 and 1 are numbers
//! always, those of parameters and of modules' buffers too. Equal sizes are one symbol, but those that are marked. The strides of a
//! tensor without gaps are products of its sizes. A stride over a gap is a number until it changes, and then what the gap was like
//! before: `x[:, :-1]` leaves as much out of each row, `x.chunk(2, 1)[0]` as large a part.

use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::BTreeSet,
    rc::Rc,
    sync::Arc,
};

use dynamlir_guards::{DYNAMIC_MARKS, Extent, LARGEST_SIZE, Relation, SizeRelation, Source, SourceId, TensorMatch};
use dynamlir_shapes::{Dim, Dimension, Interval, Predicate, Symbol};
use pyo3::{
    exceptions::PyRuntimeError,
    prelude::*,
    types::{PyList, PyTuple},
};
use rustc_hash::FxHashMap;

use super::{
    Declared, SizeGuard, Sizes, class,
    decided::{Decided, DecidedSize},
    declared::Line,
};
use crate::{
    graph_break::{GraphBreak, reason},
    state::{Capture, Input, Outcome},
};

/// Which sizes may vary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dynamic {
    /// None.
    #[default]
    Never,
    /// Those that are declared.
    Declared,
    /// Those that were another number before, and those that are marked.
    Changed,
    /// All.
    All,
}

impl Dynamic {
    /// As the argument `dynamic` says it.
    #[must_use]
    pub fn of(dynamic: Option<bool>) -> Self {
        match dynamic {
            None => Self::Changed,
            Some(true) => Self::All,
            Some(false) => Self::Never,
        }
    }
}

/// What one capture knows of sizes that vary.
#[derive(Default)]
pub(crate) struct Varying {
    pub how: Dynamic,
    /// Whether the graph's nodes say what those are that only running tells.
    pub uncut: bool,
    /// What is declared of them, if that is how.
    declared: Option<Rc<Declared>>,
    /// Made with the first symbol.
    sizes: OnceCell<Py<Sizes>>,
    /// Where they are found.
    extents: RefCell<Vec<(SourceId, Extent, Dim)>>,
    /// The tensors with marks by which sizes may vary, whether they do or not: 0 and 1 are numbers.
    marked: RefCell<Vec<SourceId>>,
    /// The symbol of each number that is no marked one.
    equal: RefCell<FxHashMap<i64, Symbol>>,
    /// The places of the symbols, as [`dynamlir_frame::Floats`] knows them.
    places: RefCell<Vec<(Symbol, String)>>,
    /// The sizes of this call, by their places.
    seen: RefCell<Vec<(String, u64)>>,
    /// Those of the places whose numbers Python needs.
    blamed: RefCell<BTreeSet<String>>,
    /// How much had been assumed when the guards were taken.
    guarded: Cell<usize>,
    /// Whether all are, since something of ours does not know what to do with an expression.
    all_blamed: Cell<bool>,
    /// What stands for the ints that were found.
    ints: RefCell<Vec<(SourceId, Py<PyAny>)>>,
    /// What was decided of the sizes of tensors.
    decided: RefCell<Vec<DecidedSize>>,
    /// What is to be decided of them, if an earlier capture is done again.
    replays: Option<Arc<Decided>>,
    /// The numbers that vary, by their places, with what they are now.
    values: RefCell<Vec<(String, String)>>,
    /// The places whose writes are left out.
    left_out: RefCell<Vec<SourceId>>,
}

impl Varying {
    pub fn new(how: Dynamic, declared: Option<Rc<Declared>>, uncut: bool, replays: Option<Arc<Decided>>) -> Self {
        Self { how, uncut, declared, replays, ..Self::default() }
    }

    /// What was decided of sizes. `expression` gives that of a source.
    pub(crate) fn decided(&self, expression: impl Fn(SourceId) -> String) -> Decided {
        Decided {
            sizes: self.decided.borrow().clone(),
            ints: self.ints.borrow().iter().map(|(source, _)| expression(*source)).collect(),
            marked: self.marked.borrow().iter().map(|source| expression(*source)).collect(),
            expected: self.sizes().map(|sizes| sizes.get().with(|known| known.expected.clone())).unwrap_or_default(),
            left_out: self.left_out.borrow().iter().map(|source| expression(*source)).collect(),
        }
    }

    /// Returns true if a symbol may stand for the int at an expression: not if none did in an earlier capture, which is done again.
    pub(super) fn may_be_symbol(&self, expression: &String) -> bool {
        self.replays.as_ref().is_none_or(|decided| decided.ints.contains(expression))
    }

    /// Returns true if a write may be left out where the place holds the value already: not if an earlier capture, which is done again,
    /// has not left it out.
    pub(crate) fn may_leave_out(&self, expression: impl FnOnce() -> String) -> bool {
        self.replays.as_ref().is_none_or(|decided| decided.left_out.contains(&expression()))
    }

    /// Notes that a write is left out.
    pub(crate) fn leave_out(&self, stored: SourceId) {
        self.left_out.borrow_mut().push(stored);
    }

    /// Says what a number that varies is now.
    pub(crate) fn note_value(&self, place: &str, value: &impl ToString) {
        self.values.borrow_mut().push((place.to_owned(), value.to_string()));
    }

    /// The numbers that vary, by their places, with what they are now.
    pub(crate) fn values(&self) -> Vec<(String, String)> {
        self.values.borrow().clone()
    }

    /// Returns true if the program is to outlive the call that it is captured from: what it computes with is its own then, and no
    /// guard is checked.
    pub(crate) fn is_declared(&self) -> bool {
        self.how == Dynamic::Declared
    }

    /// The number that the int is which an expression reaches, if that is declared to vary.
    pub(super) fn declared_int(&self, expression: &str) -> Option<Line> {
        self.declared.as_ref()?.int(expression)
    }

    /// A line over a declared number as an expression.
    pub(super) fn declared_size(&self, py: Python<'_>, line: Line) -> Option<Dim> {
        let sizes = self.known(py).bind(py).get();
        Some(sizes.made(self.declared.as_ref()?.expression(line, sizes)))
    }

    /// What is known of the symbols, if there is one.
    pub fn sizes(&self) -> Option<&Py<Sizes>> {
        self.sizes.get()
    }

    /// The same, made with the first symbol.
    pub(crate) fn known(&self, py: Python<'_>) -> &Py<Sizes> {
        self.sizes.get_or_init(|| {
            let made = Sizes::default();
            made.with(|known| known.replayed = self.replays.as_ref().map(|decided| decided.expected.clone()));
            Py::new(py, made).unwrap_or_else(|_| unreachable!("a class of ours can be made"))
        })
    }

    /// What stands for the int at a source.
    pub(super) fn int_of<'py>(&self, py: Python<'py>, source: SourceId) -> Option<Bound<'py, PyAny>> {
        let ints = self.ints.borrow();
        ints.iter().find(|(at, _)| *at == source).map(|(_, size)| size.bind(py).clone())
    }

    /// Where the int is found for which this size stands.
    pub(super) fn int_that_is(&self, py: Python<'_>, size: &Dim) -> PyResult<Option<SourceId>> {
        for (source, stands) in self.ints.borrow().iter() {
            if class::node_of(stands.bind(py))?.get().dim(py) == *size {
                return Ok(Some(*source));
            }
        }
        Ok(None)
    }

    /// Says what stands for the int at a source, whose symbol is found there so.
    pub(super) fn note_int(&self, source: SourceId, extent: Extent, length: Dim, place: String, size: &Bound<'_, PyAny>) {
        if let Some(symbol) = length.as_symbol() {
            self.places.borrow_mut().push((symbol, place));
        }
        self.extents.borrow_mut().push((source, extent, length));
        self.ints.borrow_mut().push((source, size.clone().unbind()));
    }

    /// Whether a size varies.
    pub fn any(&self) -> bool {
        self.sizes.get().is_some_and(|sizes| sizes.get().any())
    }

    /// The places of the symbols.
    pub fn places(&self) -> Vec<String> {
        self.places.borrow().iter().map(|(_, place)| place.clone()).collect()
    }

    /// Those of ints. What stands for one is on the CPU, which a graph on another device does not take.
    pub fn places_of_ints(&self) -> Vec<String> {
        let ints = self.ints.borrow();
        let extents = self.extents.borrow();
        let found = extents.iter().filter(|(source, ..)| ints.iter().any(|(at, _)| at == source));
        found.flat_map(|(.., size)| self.places_of(size)).collect()
    }

    /// Those of the symbols of a size.
    pub fn places_of(&self, size: &Dim) -> Vec<String> {
        let symbols = size.to_expr().symbols();
        self.places.borrow().iter().filter(|(symbol, _)| symbols.contains(symbol)).map(|(_, place)| place.clone()).collect()
    }

    /// Those whose numbers Python needs.
    pub fn blamed(&self) -> Vec<String> {
        if self.all_blamed.get() { self.places() } else { self.blamed.borrow().iter().cloned().collect() }
    }

    /// Where a symbol is bound.
    pub fn binding(&self, symbol: Symbol) -> Option<(SourceId, usize)> {
        self.extents.borrow().iter().find_map(|(source, extent, size)| match extent {
            Extent::Size(d) if size.as_symbol() == Some(symbol) => Some((*source, *d)),
            Extent::Int | Extent::Negated if size.as_symbol() == Some(symbol) => Some((*source, 0)),
            _ => None,
        })
    }

    /// Where the symbols are bound, by their numbers; None for those that only running tells.
    pub fn bound(&self, py: Python<'_>) -> Vec<Option<(SourceId, usize)>> {
        let Some(sizes) = self.sizes() else { return Vec::new() };
        let symbols: Vec<_> = sizes.bind(py).get().with(|known| known.scope.symbols().map(|(symbol, _)| symbol).collect());
        symbols.into_iter().map(|symbol| self.binding(symbol)).collect()
    }

    /// Whether a size that varies is one of what the call is given.
    fn is_found(&self) -> bool {
        !self.extents.borrow().is_empty()
    }

    /// What must hold of the sizes.
    pub fn relation(&self, py: Python<'_>) -> Option<Relation> {
        let (ranges, assumed) = self.sizes()?.bind(py).get().with(|known| {
            let declared = known.ranges.clone();
            (declared, Sizes::early(known).map(|(_, guard)| guard.predicate.clone()).collect())
        });
        Some(Relation::Sizes(SizeRelation { extents: self.extents.borrow().clone(), ranges, assumed }))
    }
}

/// The sizes and strides of a fake, where some are symbols.
pub(crate) struct Sized {
    pub(super) sizes: Vec<Dim>,
    pub(super) strides: Vec<Dim>,
}

/// What a tensor's marks say of one of its sizes.
enum Mark {
    None,
    Static,
    /// From `mark_dynamic`: it must vary, within this range. So from `mark_unbacked`, though 0 and 1 have graphs of their own.
    Dynamic(Interval),
    /// From `maybe_mark_dynamic`.
    Weak,
}

impl<'py> Capture<'py> {
    /// The sizes of a tensor found at a source, if one of them varies.
    pub(crate) fn varying_sizes(&self, real: &Bound<'py, PyAny>, source: SourceId, expression: &str) -> Outcome<Option<Sized>> {
        let varying = &self.varying;
        if varying.how == Dynamic::Never {
            return Ok(None);
        }
        // Others may have a behaviour of their own, which shows what is asked of them.
        let class = real.get_type();
        if !(class.is(dynamlir_cpython_abi::import(self.py, "torch")?.getattr("Tensor")?) || self.torch.is_parameter_class(class.as_any()))
        {
            return Ok(None);
        }
        let has = |mark: &str| real.getattr_opt(mark).map(|found| found.is_some());
        if let Some(decided) = &varying.replays {
            if decided.marked.iter().any(|marked| marked == expression) {
                varying.marked.borrow_mut().push(source);
            }
        } else if dynamlir_interpreter::suspended(|| Ok::<_, PyErr>(has(DYNAMIC_MARKS[0])? || has(DYNAMIC_MARKS[1])?))? {
            varying.marked.borrow_mut().push(source);
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
            if let Some(line) = varying.declared.as_ref().and_then(|declared| declared.size(real, d)) {
                if self.may_vary(&place)
                    && let Some(size) = varying.declared_size(self.py, line)
                {
                    let symbols_of = size.to_expr().symbols().into_iter().map(|symbol| (symbol, place.clone()));
                    varying.places.borrow_mut().extend(symbols_of);
                    varying.extents.borrow_mut().push((source, Extent::Size(d), size.clone()));
                    symbols[d] = size;
                }
                continue;
            }
            let decided = match &varying.replays {
                Some(decided) => decided.at(&place).map(|size| (size.range, size.marked)),
                None => self.range_of(real, d, size, &place, held)?,
            };
            if !held {
                self.note_size(expression, d, size);
            }
            let Some((range, marked)) = decided else { continue };
            let symbol = self.symbol(size, range, marked, &place);
            varying.note_value(&place, &size);
            varying.decided.borrow_mut().push(DecidedSize { place: place.clone(), symbol, range, marked });
            varying.places.borrow_mut().push((symbol, place));
            varying.extents.borrow_mut().push((source, Extent::Size(d), Dim::from(symbol)));
            symbols[d] = Dim::from(symbol);
        }
        let strides = self.strides_of(expression, &sizes, &strides, &symbols);
        if symbols.iter().all(|size| size.known().is_some()) {
            return Ok(None);
        }
        for (d, stride) in strides.iter().enumerate().filter(|(_, stride)| stride.known().is_none()) {
            varying.extents.borrow_mut().push((source, Extent::Stride(d), stride.clone()));
        }
        self.layers.note_unrepeatable();
        Ok(Some(Sized { sizes: symbols, strides }))
    }

    /// In which range the size at a place varies, and whether that is its tensor's mark; None where it does not.
    fn range_of(&self, real: &Bound<'py, PyAny>, d: usize, size: i64, place: &str, held: bool) -> Outcome<Option<(Interval, bool)>> {
        let mark = if self.varying.how == Dynamic::Declared { Mark::Static } else { mark_of(real, d)? };
        let all = || (Interval::new(2, LARGEST_SIZE), false);
        Ok(match mark {
            Mark::Static => None,
            // Outside of what the mark allows it is a number.
            Mark::Dynamic(range) => range.contains(size).then_some((range, true)),
            Mark::Weak => self.may_vary(place).then(all),
            Mark::None if held => None,
            Mark::None => self.varies(place, size).then(all),
        })
    }

    /// Strides as products of sizes, where they are that from the innermost dimension on.
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
            // The stride of one element says nothing of what lies farther out: heads within a line, of which there is one.
            if sizes[d] != 1 {
                now = strides[d].saturating_mul(sizes[d]);
                expected = made[d].mul(&symbols[d]).unwrap_or_else(|_| Dim::from(now));
            }
        }
        made
    }

    /// A stride where it would be another one without a gap: the expression of which that is the value now.
    fn over_gap(&self, place: &str, stride: i64, now: i64, expected: &Dim) -> Dim {
        let (gap, factor) = (stride - now, if now > 0 && stride % now == 0 { stride / now } else { 0 });
        let changes = self.varies(place, stride);
        let stays = |what: &str, value: i64| {
            let place = format!("{place} {what}");
            let changes = self.floats.as_ref().is_none_or(|known| known.is_number(&place, value.cast_unsigned()));
            self.varying.seen.borrow_mut().push((place, value.cast_unsigned()));
            !changes
        };
        let (same_gap, same_factor) = (stays("beyond", gap), stays("times", factor) && factor > 0);
        self.varying.seen.borrow_mut().push((place.to_owned(), stride.cast_unsigned()));
        let made = match changes {
            true if same_gap => expected.add(&Dim::from(gap)),
            true if same_factor => expected.mul(&Dim::from(factor)),
            _ => Ok(Dim::from(stride)),
        };
        made.unwrap_or_else(|_| Dim::from(stride))
    }

    fn note_size(&self, expression: &str, d: usize, size: i64) {
        self.varying.seen.borrow_mut().push((place(expression, d), size.cast_unsigned()));
    }

    /// Whether nobody has needed the number at a place.
    fn may_vary(&self, place: &str) -> bool {
        self.floats.as_ref().is_some_and(|known| known.may_be_number(place))
    }

    fn varies(&self, place: &str, size: i64) -> bool {
        match self.varying.how {
            Dynamic::Never | Dynamic::Declared => false,
            Dynamic::Changed => self.floats.as_ref().is_some_and(|known| known.is_number(place, size.cast_unsigned())),
            Dynamic::All => self.may_vary(place),
        }
    }

    fn symbol(&self, size: i64, range: Interval, marked: bool, place: &str) -> Symbol {
        let sizes = self.varying.known(self.py).bind(self.py).get();
        let shared = self.varying.replays.as_ref().and_then(|decided| decided.at(place)).filter(|_| !marked);
        if let Some(DecidedSize { symbol, .. }) = shared {
            let is_known = sizes.with(|known| known.scope.info(*symbol).is_some());
            return if is_known { *symbol } else { sizes.declare(size, range) };
        }
        if marked {
            let symbol = sizes.declare(size, range);
            sizes.with(|known| known.marked.push((symbol, place.to_owned())));
            return symbol;
        }
        *self.varying.equal.borrow_mut().entry(size).or_insert_with(|| sizes.declare(size, range))
    }

    /// Notes the sizes of this call for later ones, and guards what was assumed of those that vary.
    pub(crate) fn guard_sizes(&self) {
        self.varying.guarded.set(self.assumptions());
        if let Some(floats) = &self.floats {
            self.varying.seen.borrow().iter().for_each(|(place, value)| floats.note(place.clone(), *value));
        }
        if let Some(relation) = self.varying.relation(self.py).filter(|_| self.varying.is_found()) {
            self.guards.relate(relation);
        }
    }

    /// A metadata guard without what varies. What is marked here need not be marked at another call.
    pub(crate) fn loosened(&self, mut matched: TensorMatch, source: SourceId) -> TensorMatch {
        if self.varying.marked.borrow().contains(&source) {
            matched.no_dynamic_indices = false;
        }
        if self.varying.any() {
            for (_, extent, _) in self.varying.extents.borrow().iter().filter(|(at, ..)| *at == source) {
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
        self.varying.sizes().map_or(0, |sizes| sizes.bind(self.py).get().with(|known| known.guards.len()))
    }

    /// Tells the session what is known of the symbols, and which size of which of the graph's inputs each is.
    pub(crate) fn tell_sizes(&self, inputs: &[Input]) -> PyResult<()> {
        let Some(sizes) = self.varying.sizes().filter(|_| self.varying.any()) else { return Ok(()) };
        if self.assumptions() != self.varying.guarded.get() {
            return Err(PyRuntimeError::new_err("something was assumed of sizes when the guards had been taken"));
        }
        let position = |place: Option<(SourceId, usize)>| {
            let Some((source, d)) = place else { return Some(None) };
            Some(Some((inputs.iter().position(|input| input.source == source)?, d)))
        };
        let bound = self.varying.bound(self.py).into_iter().map(position).collect::<Option<Vec<_>>>();
        let bound = bound.ok_or_else(|| PyRuntimeError::new_err("a size that varies is in none of the graph's inputs"))?;
        self.session().call_method1("note_sizes", (sizes, bound, self.varying.places()))?;
        Ok(())
    }

    /// Sizes and strides as Python has them.
    pub(crate) fn as_lists(&self, sized: Sized) -> PyResult<Bound<'py, PyTuple>> {
        let Some(sizes) = self.varying.sizes() else { return Ok(PyTuple::empty(self.py)) };
        let list = |dims: Vec<Dim>| -> PyResult<Bound<'py, PyList>> {
            let values = dims.into_iter().map(|dim| class::wrap(sizes.bind(self.py), dim)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(self.py, values)
        };
        PyTuple::new(self.py, [list(sized.sizes)?, list(sized.strides)?])
    }

    /// Why the capture is for nothing, as far as sizes are concerned: an expression that cannot be said.
    pub(crate) fn failed_size(&self) -> Option<GraphBreak> {
        if let Some(found) = self.undecided_size() {
            return Some(found);
        }
        let message = self.varying.sizes()?.bind(self.py).get().with(|known| known.failed.clone())?;
        self.varying.all_blamed.set(true);
        Some(GraphBreak { reason: reason::DYNAMIC_SHAPE, message, location: Vec::new() })
    }

    /// What the call raises where a marked size turned out to be one number only.
    pub(crate) fn violated(&self) -> PyResult<Option<PyErr>> {
        let Some(sizes) = self.varying.sizes() else { return Ok(None) };
        let found = sizes.bind(self.py).get().with(|known| {
            known.marked.iter().find_map(|(symbol, place)| {
                let value = Dim::from(*symbol).simplify(&known.scope).ok()?.known()?;
                let about = |guard: &&SizeGuard| {
                    let Predicate { left, right, .. } = &guard.predicate;
                    left.to_expr().symbols().contains(symbol) || right.to_expr().symbols().contains(symbol)
                };
                let line = |guard: &SizeGuard| guard.location.first().map(|(file, line, name)| format!(" at {file}:{line} in {name}"));
                let why: Vec<_> = known
                    .guards
                    .iter()
                    .filter(about)
                    .map(|guard| format!("{}{}", guard.predicate, line(guard).unwrap_or_default()))
                    .collect();
                Some(format!(
                    "Constraints violated ({place})! It was marked dynamic, but the program takes it for {value}: {}. Mark it as \
                     maybe_mark_dynamic does if that is right.",
                    why.join("; ")
                ))
            })
        });
        let Some(message) = found else { return Ok(None) };
        let class = dynamlir_cpython_abi::import(self.py, "torch.fx.experimental.symbolic_shapes")?.getattr("ConstraintViolationError")?;
        Ok(Some(PyErr::from_value(class.call1((message,))?)))
    }

    /// Says that Python needs the numbers that a size is computed from.
    pub(crate) fn blame_size(&self, size: &Dim) {
        self.varying.blamed.borrow_mut().extend(self.varying.places_of(size));
    }
}

fn place(expression: &str, d: usize) -> String {
    format!("{expression}.size()[{d}]")
}

/// What the marks of a tensor, which `torch._dynamo.mark_dynamic` and its relatives store, say of a dimension.
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
