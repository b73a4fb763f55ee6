//! Dynamic sizes: the program sees each as a [`Size`](sym_int), an `int` to it, whose *node* is an expression of `crates/shapes`.
//!
//! All nodes of a capture share one [`Sizes`], which holds the symbols. A query about sizes is answered from the known facts; if these do
//! not suffice, it is answered from the sizes of this call, and the answer becomes a *guard*. So a number is never obtained without a
//! guard: C code that asks for one (`__index__`, `__hash__`, a format) gets the size of this call, guarded to be that number.
//!
//! Torch's own code has the same nodes within `torch.SymInt`, and calls the methods of `torch.fx.experimental.sym_node.SymNode`. Answers of
//! the kind "unless it is known" are guarded as well: the recording is the one that these sizes would give as numbers.
//!
//! Both front doors use this crate: the capture for the sizes it finds dynamic, torch.compile's for those that Dynamo declares.
#![forbid(unsafe_code)]

pub mod declared;
mod expressions;
mod facts;
mod layout;
pub mod location;
mod node;
mod question;
pub mod sym_bool;
pub mod sym_int;
mod torch_floats;
mod unbacked;

use std::sync::{Mutex, PoisonError};

use dynamlir_graph::Line;
use dynamlir_shapes::{
    Bindings, Dim, Dimension, Interval, LARGEST_SIZE, Predicate, Relation, Result as Shape, Scope, ShapeError, Symbol, SymbolInfo,
};
use pyo3::{exceptions::PyValueError, prelude::*};

pub use self::{
    declared::Declared,
    expressions::{expression, expression_as_recorded},
    node::SizeNode,
    sym_bool::is_asked,
    sym_int::{as_program, class, is_size, node_of},
    unbacked::Unbacked,
};

/// The guarded answer to a query about sizes.
#[derive(Clone, Debug)]
pub struct SizeGuard {
    /// The predicate that holds.
    pub predicate: Predicate,
    /// The location of the query, innermost frame first.
    pub location: Vec<Line>,
}

/// The largest magnitude to compute with, so that the sum of two such numbers fits in 64 bits.
const COMPUTED: i64 = 1 << 62;

/// The symbols of one capture: the facts about them, and the assumptions.
#[pyclass(frozen, module = "dynamlir._native")]
#[derive(Default)]
pub struct Sizes(Mutex<SizeFacts>);

/// The data protected by [`Sizes`].
#[derive(Default)]
pub(crate) struct SizeFacts {
    pub scope: Scope,
    /// The least and the largest value of each symbol, as declared.
    pub ranges: Vec<(i64, i64)>,
    pub guards: Vec<SizeGuard>,
    /// The failure to express a size: the capture must be discarded then.
    pub failed: Option<String>,
    /// The unbacked symbols.
    pub unbacked: unbacked::UnbackedSymbols,
    /// The symbols that must not turn out to be a single number, with the text of the size.
    pub marked: Vec<(Symbol, String)>,
    /// The symbols of declared numbers, with the positions of these.
    pub declared: Vec<(usize, Symbol)>,
    /// The positions of guards that were declared to hold.
    pub promised: Vec<usize>,
    /// Assumptions made because they were true, see [`Sizes::expect_at_most`].
    pub expected: Vec<Predicate>,
    /// The assumptions to make in the same way; `None` if they are to be found out.
    pub replayed: Option<Vec<Predicate>>,
}

impl Sizes {
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut SizeFacts) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Creates a symbol with this number as its hint.
    pub fn declare(&self, hint: i64, range: Interval) -> Symbol {
        self.with(|known| {
            known.ranges.push((range.lower().unwrap_or(i64::MIN), range.upper().unwrap_or(i64::MAX)));
            known.scope.fresh(SymbolInfo { range, hint: Some(hint), divisor: 1 })
        })
    }

    /// Decides a predicate, and guards the answer.
    pub fn decide(&self, predicate: &Predicate) -> bool {
        let answered = self.with(|known| {
            if let Some(answer) = known.scope.decide(predicate) {
                return Ok(Some(answer));
            }
            if known.unbacked.concerns(predicate) {
                return Ok(known.unbacked.presume(predicate, &known.scope));
            }
            let answer = question::holds_now(predicate, &known.scope).ok_or(ShapeError::Overflow)?;
            let held = if answer { predicate.clone() } else { predicate.negated() };
            known.scope.assume(&held)?;
            known.guards.push(SizeGuard { predicate: held, location: Vec::new() });
            Ok(Some(answer))
        });
        match answered {
            Ok(None) => {
                self.leave_undecided(&format!("whether {predicate}"));
                false
            }
            Ok(Some(answer)) => {
                self.locate();
                answer
            }
            Err(error) => {
                self.fail(&error);
                false
            }
        }
    }

    /// Assumes that a size is at most a number, for faster code: if it is true now, and if neither the program's declarations nor unbacked
    /// symbols concern it.
    pub fn expect_at_most(&self, size: &Dim, most: i64) {
        let predicate = Predicate::new(size.clone(), Relation::Le, most);
        let may = self.with(|known| {
            if let Some(expected) = &known.replayed {
                return expected.contains(&predicate);
            }
            let is_free = |symbol: Symbol| {
                let info = known.scope.info(symbol);
                info.is_some_and(|info| info.range.upper().is_none_or(|upper| upper >= LARGEST_SIZE))
            };
            known.declared.is_empty()
                && !known.unbacked.concerns(&predicate)
                && known.scope.decide(&predicate).is_none()
                && size.to_expr().symbols().into_iter().all(is_free)
                && question::holds_now(&predicate, &known.scope) == Some(true)
        });
        if may {
            self.decide(&predicate);
            self.with(|known| known.expected.push(predicate));
        }
    }

    /// Returns true if a predicate is known to hold, without a guard.
    pub fn surely(&self, predicate: &Predicate) -> bool {
        self.with(|known| known.scope.decide(predicate)) == Some(true)
    }

    /// Records the location of the query behind the last guard.
    fn locate(&self) {
        let missing = self.with(|known| known.guards.last().is_some_and(|guard| guard.location.is_empty()));
        if missing {
            let location = location::current();
            self.with(|known| {
                if let Some(guard) = known.guards.last_mut() {
                    guard.location = location;
                }
            });
        }
    }

    /// Guards that code can compute a size in 64 bits; if it cannot, the size is settled.
    pub fn fit(&self, size: &Dim) {
        let expr = size.to_expr();
        for part in expr.operands().into_iter().chain([expr]) {
            let part = Dim::from(part);
            let within = [(Relation::Le, COMPUTED), (Relation::Ge, -COMPUTED)];
            if !within.into_iter().all(|(relation, bound)| self.needs(&Predicate::new(part.clone(), relation, bound))) {
                self.settle(size);
                return;
            }
        }
    }

    /// Returns the number that a size is, and guards it.
    pub fn settle(&self, size: &Dim) -> i64 {
        if let Some(value) = size.known() {
            return value;
        }
        let size = &self.made(Ok(size.clone()));
        if let Some(value) = size.known() {
            return value;
        }
        if self.is_unbacked(size) {
            self.leave_undecided(&format!("the number that {size} is"));
            return self.with(|known| size.hint(&known.scope)).unwrap_or_default();
        }
        let hint = self.with(|known| known.scope.simplify(&size.to_expr()).ok().and_then(|size| known.scope.hint(&size)));
        let Some(hint) = hint else {
            self.fail(&ShapeError::Overflow);
            return 0;
        };
        self.decide(&Predicate::new(size.clone(), Relation::Eq, hint));
        hint
    }

    /// Divides one size by another, if there is no remainder regardless of their values.
    pub fn quotient(&self, above: &Dim, below: &Dim) -> Option<Dim> {
        let divides = Predicate::divisible(above, below).ok()?;
        self.with(|known| {
            let fits = known.scope.decide(&Predicate::new(below.clone(), Relation::Gt, 0)) == Some(true);
            (fits && known.scope.decide(&divides) == Some(true)).then(|| above.floordiv(below).ok()?.simplify(&known.scope).ok()).flatten()
        })
    }

    /// Records that the capture must be discarded, and why.
    pub fn fail(&self, error: &ShapeError) {
        self.with(|known| {
            known.failed.get_or_insert_with(|| error.to_string());
        });
    }

    /// Returns the result of arithmetic in its simplest form.
    pub fn made(&self, size: Shape<Dim>) -> Dim {
        match size.and_then(|size| self.with(|known| size.simplify(&known.scope))) {
            Ok(size) => size,
            Err(error) => {
                self.fail(&error);
                Dim::from(0)
            }
        }
    }
}

#[pymethods]
#[expect(clippy::unused_self, reason = "torch calls methods")]
impl Sizes {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Creates a size that is this number now, and always at least `min`.
    #[pyo3(signature = (hint, min=2, max=None))]
    fn size<'py>(slf: &Bound<'py, Self>, hint: i64, min: i64, max: Option<i64>) -> PyResult<Bound<'py, PyAny>> {
        if hint < min || max.is_some_and(|max| hint > max) {
            return Err(PyValueError::new_err("a size is out of its range"));
        }
        let symbol = slf.get().declare(hint, Interval::new(min, max.unwrap_or(LARGEST_SIZE)));
        sym_int::wrap(slf, Dim::from(symbol))
    }

    /// Returns the assumptions, each as text and with its location, innermost frame first.
    #[getter]
    fn guards(&self) -> Vec<(String, Vec<Line>)> {
        self.with(|known| Self::early(known).map(|(_, guard)| (guard.predicate.to_string(), guard.location.clone())).collect())
    }

    /// Returns the declared numbers that were used: the position, the symbol, and the symbol's final expression.
    #[getter]
    fn declared(&self) -> Vec<(usize, String, String)> {
        self.declared_in_words()
    }

    /// Returns the positions of the guards that were declared to hold.
    #[getter]
    fn promised(&self) -> Vec<usize> {
        self.with(|known| {
            let early = Self::early(known).enumerate();
            early.filter(|(_, (at, _))| known.promised.contains(at)).map(|(place, _)| place).collect()
        })
    }

    /// Returns true if the guard at a position is only about the range of 64-bit numbers.
    fn is_about_range(&self, at: usize) -> bool {
        self.with(|known| {
            let bound = Self::early(known).nth(at).and_then(|(_, guard)| guard.predicate.right.known().or(guard.predicate.left.known()));
            bound.is_some_and(|bound| bound.unsigned_abs() >= COMPUTED.unsigned_abs())
        })
    }

    /// Returns true if all assumptions hold for these values of the symbols.
    fn holds(&self, values: Vec<i64>) -> bool {
        let bindings = values.into_iter().enumerate().map(|(at, value)| (Symbol(at as u32), value)).collect();
        self.with(|known| known.scope.admits(&bindings))
    }

    /// Returns the values of all symbols. `named` are the values, in order, of the symbols that recorded sizes name and inputs of the graph
    /// bind. The others are computed from these; a symbol not bound by an input belongs to another part of the recording, and any number
    /// does for it.
    #[expect(clippy::needless_pass_by_value, reason = "of Python")]
    fn all_values(&self, named: Vec<i64>, bound: Vec<Option<(usize, usize)>>) -> PyResult<Vec<i64>> {
        let is_bound = |symbol: &Symbol| bound.get(symbol.0 as usize).is_some_and(Option::is_some);
        let (here, elsewhere): (Vec<Symbol>, Vec<Symbol>) = self.free().into_iter().map(|(symbol, _)| symbol).partition(is_bound);
        if here.len() != named.len() {
            return Err(PyValueError::new_err(format!("{} values for {} sizes", named.len(), here.len())));
        }
        let any = elsewhere.into_iter().map(|symbol| (symbol, 2));
        let bindings: Bindings = here.into_iter().zip(named).chain(any).collect();
        let value = |known: &SizeFacts, symbol: Symbol| Dim::from(symbol).simplify(&known.scope)?.at(&bindings);
        let values = self.with(|known| known.scope.symbols().map(|(symbol, _)| value(known, symbol)).collect::<Shape<_>>());
        values.map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Returns the reason why the capture must be discarded, if any.
    #[getter]
    fn failed(&self) -> Option<String> {
        self.with(|known| known.failed.clone())
    }

    /// Returns the number of symbols.
    fn __len__(&self) -> usize {
        self.with(|known| known.scope.symbols().count())
    }

    /// Converts a `torch.SymInt` of this capture to the form that the program sees.
    #[staticmethod]
    fn as_program<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        sym_int::as_program(value)
    }

    /// Returns a recorded size as text, without any query.
    #[staticmethod]
    fn text(value: &Bound<'_, PyAny>) -> PyResult<String> {
        Ok(expression(value)?.map_or_else(|| "?".to_owned(), |size| size.to_string()))
    }

    /// Called by torch's `statically_known_true`.
    fn _maybe_evaluate_static(&self, question: &Bound<'_, SizeNode>) -> bool {
        question.get().truth(question.py())
    }

    /// Called by torch's `guard_or_false` and its relatives.
    #[pyo3(signature = (node, size_oblivious=false, fallback_value=None))]
    fn evaluate_sym_node(&self, node: &Bound<'_, SizeNode>, size_oblivious: bool, fallback_value: Option<bool>) -> bool {
        let _ = (size_oblivious, fallback_value);
        node.get().truth(node.py())
    }

    /// Creates an unbacked size, at least `min`. The hint is used for choices for which any value is valid.
    #[pyo3(signature = (min=0, max=None))]
    fn unbacked<'py>(slf: &Bound<'py, Self>, min: i64, max: Option<i64>) -> PyResult<Bound<'py, PyAny>> {
        // These are distinct, and unlikely to be taken for another size.
        const HINTS: &[i64] = &[11, 13, 17, 19, 23, 29, 31, 37];
        let this = slf.get();
        let hint = HINTS[this.unbacked_count() % HINTS.len()];
        let symbol = this.declare(hint, Interval::new(min, max.unwrap_or(LARGEST_SIZE)));
        this.with(|known| known.unbacked.symbols.insert(symbol));
        sym_int::wrap(slf, Dim::from(symbol))
    }

    /// Returns the symbol with this number, as a size.
    fn symbol<'py>(slf: &Bound<'py, Self>, number: u32) -> PyResult<Bound<'py, PyAny>> {
        sym_int::wrap(slf, Dim::from(Symbol(number)))
    }

    /// Allows or forbids presuming that unbacked symbols are 2 or more. Returns the numbers of the symbols for which something was presumed
    /// since the last call.
    fn presume(&self, may: bool) -> Vec<u32> {
        self.with(|known| {
            known.unbacked.presumes = may;
            std::mem::take(&mut known.unbacked.presumed).into_iter().map(|symbol| symbol.0).collect()
        })
    }

    /// The query that could not be decided, as text.
    #[getter(undecided)]
    fn undecided_text(&self) -> Option<String> {
        self.undecided().map(|(message, _)| message)
    }

    /// Returns true if symbols, by their numbers, can have these values at the same time, as far as is known.
    fn can_be(&self, values: Vec<(u32, i64)>) -> bool {
        let mut scope = self.with(|known| known.scope.clone());
        let is = |(number, value)| Predicate::new(Dim::from(Symbol(number)), Relation::Eq, value);
        values.into_iter().all(|value| scope.assume(&is(value)).is_ok())
    }

    /// Asserts that a symbol does not have a value, which is checked once it is known.
    fn never(&self, number: u32, value: i64) -> bool {
        self.count_on(&Predicate::new(Dim::from(Symbol(number)), Relation::Ne, value))
    }

    /// Returns a size in which some symbols, by their numbers, have these values: a number, or an expression of the others.
    fn where_they_are<'py>(slf: &Bound<'py, Self>, size: &Bound<'py, PyAny>, values: Vec<(u32, i64)>) -> PyResult<Bound<'py, PyAny>> {
        let node = sym_int::node_of(size)?;
        let failed = |error: ShapeError| PyValueError::new_err(error.to_string());
        let mut scope = slf.get().with(|known| known.scope.clone());
        for (number, value) in values {
            scope.assume(&Predicate::new(Dim::from(Symbol(number)), Relation::Eq, value)).map_err(failed)?;
        }
        sym_int::wrap(slf, node.get().dim(slf.py()).simplify(&scope).map_err(failed)?)
    }

    /// Returns the assumption that these values of the symbols violate, some of which are not known yet; `None` if no violation is known.
    fn violated(&self, values: Vec<Option<i64>>) -> Option<String> {
        let known = values.into_iter().enumerate().filter_map(|(at, value)| Some((Symbol(at as u32), value?)));
        let bindings: Bindings = known.collect();
        self.with(|known| {
            for (at, (least, most)) in known.ranges.iter().enumerate() {
                let symbol = Symbol(at as u32);
                if bindings.get(symbol).is_some_and(|value| value < *least || value > *most) {
                    return Some(format!("{symbol} is out of its range"));
                }
            }
            let broken = |guard: &&SizeGuard| guard.predicate.holds(&bindings) == Ok(false);
            known.guards.iter().find(broken).map(|guard| guard.predicate.to_string())
        })
    }

    /// Returns the assumptions that are checked when the graph runs, each as the numbers of its symbols.
    fn checked(&self) -> Vec<Vec<u32>> {
        self.with(|known| {
            let numbers = |predicate: &Predicate| {
                let named = predicate.left.to_expr().symbols().into_iter().chain(predicate.right.to_expr().symbols());
                named.map(|symbol| symbol.0).collect()
            };
            let late = known.guards.iter().filter(|guard| Self::is_checked_late(known, guard)).map(|guard| numbers(&guard.predicate));
            // All sizes of tensors are in this range.
            let ranged = known.unbacked.symbols.iter().filter(|symbol| known.ranges.get(symbol.0 as usize) != Some(&(0, LARGEST_SIZE)));
            late.chain(ranged.map(|symbol| vec![symbol.0])).collect()
        })
    }

    /// Takes all unbacked symbols to be 2 or more, once recording has ended: the code is compiled for such values.
    fn take_for_many(&self) {
        self.with(|known| {
            for symbol in known.unbacked.symbols.clone() {
                // A symbol that is certainly less is a number.
                let _known = known.scope.assume(&Predicate::new(Dim::from(symbol), Relation::Ge, 2));
                if let Some(info) = known.scope.info(symbol).copied()
                    && info.hint.is_some_and(|hint| !info.range.contains(hint))
                {
                    known.scope.declare(symbol, SymbolInfo { hint: info.range.lower(), ..info });
                }
            }
        });
    }
}
