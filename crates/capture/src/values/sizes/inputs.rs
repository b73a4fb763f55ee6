//! The dynamic sizes of a capture's inputs, and the symbols that they get.
//!
//! The rules are Dynamo's: a size is static until it differs from that of an earlier entry, at the same source. Sizes of 0 and 1 are always
//! static, and so are those of parameters and of modules' buffers. Equal sizes share a symbol, except those that are marked. The strides of
//! a tensor without gaps are products of its sizes. A stride over a gap is static until it changes, and then the gap is assumed to be as
//! before: `x[:, :-1]` omits as much of each row, `x.chunk(2, 1)[0]` takes as large a part.

use dynamlir_guards::{DYNAMIC_MARKS, Extent, Source, SourceId, TensorMatch};
use dynamlir_shapes::{Dim, Dimension, Interval, LARGEST_SIZE, Symbol};
use dynamlir_symint::{SizeGuard, sym_int};
use pyo3::{
    exceptions::PyRuntimeError,
    prelude::*,
    types::{PyList, PyTuple},
};

use crate::{
    floors::Numbers,
    graph_break::{GraphBreak, Outcome, reason},
    state::{Input, dynamic_sizes::Dynamic, size_decisions::DecidedSize},
};

/// The sizes and strides of a fake, some of which are symbols.
pub(crate) struct Sized {
    pub(crate) sizes: Vec<Dim>,
    pub(crate) strides: Vec<Dim>,
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

impl<'py> Numbers<'py> {
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
        let line = |guard: &SizeGuard| guard.location.first().map(|(file, line, name, _)| format!(" at {file}:{line} in {name}"));
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

pub(crate) fn place(expression: &str, d: usize) -> String {
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
