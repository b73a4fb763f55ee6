//! Sizes that vary: what the program has for one is a [`Size`](class), an `int` to it, whose *node* is an expression of `crates/shapes`.
//!
//! All nodes of a capture share one [`Sizes`], which knows the symbols. A question about sizes is answered by what is known of them;
//! where that is not enough, by the sizes of this call, and the answer is a *guard*. So there is no way to a number that is not guarded:
//! C code that asks for one (`__index__`, `__hash__`, a format) gets the size of this call, under the guard that it is that.
//!
//! Torch's own code has the same nodes within `torch.SymInt`, and asks what it asks of `torch.fx.experimental.sym_node.SymNode`. Answers of
//! the kind "unless it is known" are guarded as well: what is recorded is what would be recorded for these sizes as numbers.

mod asked;
mod class;
mod decided;
mod declared;
mod float;
mod input;
mod int;
mod layout;
mod made;
mod node;
mod number;
mod policy;
mod question;
mod spelled;
mod unbacked;
mod written;

use std::sync::{Mutex, PoisonError};

use dynamlir_graph::Line;
use dynamlir_guards::LARGEST_SIZE;
use dynamlir_shapes::{Bindings, Dim, Dimension, Interval, Predicate, Relation, Result as Shape, Scope, ShapeError, Symbol, SymbolInfo};
use pyo3::{exceptions::PyValueError, prelude::*};

pub(crate) use self::{
    asked::is_asked,
    class::{as_program, is_size, node_of},
    decided::Decided,
    input::Varying,
    policy::follow,
};
pub use self::{class::class, declared::Declared, input::Dynamic, node::SizeNode, unbacked::Unbacked, written::expression};

/// What a question about sizes was answered by.
#[derive(Clone, Debug)]
pub struct SizeGuard {
    /// What holds.
    pub predicate: Predicate,
    /// Where that was asked, innermost frame first.
    pub location: Vec<Line>,
}

/// What may be computed with is no larger, so that a sum of two is none that 64 bits do not hold.
const COMPUTED: i64 = 1 << 62;

/// The symbols of one capture: what is known of them, and what was assumed.
#[pyclass(frozen, module = "dynamlir._native")]
#[derive(Default)]
pub struct Sizes(Mutex<Known>);

/// What [`Sizes`] protects.
#[derive(Default)]
pub(crate) struct Known {
    pub scope: Scope,
    /// The least and the largest value of each symbol, as declared.
    pub ranges: Vec<(i64, i64)>,
    pub guards: Vec<SizeGuard>,
    /// What cannot be said with expressions: the capture is for nothing then.
    pub failed: Option<String>,
    /// Those that only running tells.
    pub unbacked: unbacked::Untold,
    /// The symbols that must not turn out to be one number, with words for the size.
    pub marked: Vec<(Symbol, String)>,
    /// The symbols of declared numbers, by the places of those.
    pub declared: Vec<(usize, Symbol)>,
    /// Which of the guards were declared to hold.
    pub promised: Vec<usize>,
    /// What was assumed because it was so, see [`Sizes::expect_at_most`].
    pub expected: Vec<Predicate>,
    /// What is to be assumed so; None where that is to be found out.
    pub replayed: Option<Vec<Predicate>>,
}

impl Sizes {
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Known) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A new symbol that is this number now.
    pub(crate) fn declare(&self, hint: i64, range: Interval) -> Symbol {
        self.with(|known| {
            known.ranges.push((range.lower().unwrap_or(i64::MIN), range.upper().unwrap_or(i64::MAX)));
            known.scope.fresh(SymbolInfo { range, hint: Some(hint), divisor: 1 })
        })
    }

    /// Whether a predicate holds, from now on.
    pub(crate) fn decide(&self, predicate: &Predicate) -> bool {
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

    /// Assumes that a size is at most a number, for the sake of faster code: where it is so now, and where neither the program's declarations
    /// nor what only running tells speak of it.
    pub(crate) fn expect_at_most(&self, size: &Dim, most: i64) {
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

    /// Whether a predicate is known to hold, without a guard.
    pub(crate) fn surely(&self, predicate: &Predicate) -> bool {
        self.with(|known| known.scope.decide(predicate)) == Some(true)
    }

    /// Says where the last guard was asked for.
    fn locate(&self) {
        let missing = self.with(|known| known.guards.last().is_some_and(|guard| guard.location.is_empty()));
        if missing {
            let location = policy::location();
            self.with(|known| {
                if let Some(guard) = known.guards.last_mut() {
                    guard.location = location;
                }
            });
        }
    }

    /// Has a size be one that code may compute in 64 bits, from now on: where it is not, it is settled.
    pub(crate) fn fit(&self, size: &Dim) {
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

    /// The number that a size is, from now on.
    pub(crate) fn settle(&self, size: &Dim) -> i64 {
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

    /// A size divided by one, where nothing is left over whatever they are.
    pub(crate) fn quotient(&self, above: &Dim, below: &Dim) -> Option<Dim> {
        let divides = Predicate::divisible(above, below).ok()?;
        self.with(|known| {
            let fits = known.scope.decide(&Predicate::new(below.clone(), Relation::Gt, 0)) == Some(true);
            (fits && known.scope.decide(&divides) == Some(true)).then(|| above.floordiv(below).ok()?.simplify(&known.scope).ok()).flatten()
        })
    }

    /// Says that the capture is for nothing, and why.
    pub(crate) fn fail(&self, error: &ShapeError) {
        self.with(|known| {
            known.failed.get_or_insert_with(|| error.to_string());
        });
    }

    /// The result of arithmetic in its simplest form.
    pub(crate) fn made(&self, size: Shape<Dim>) -> Dim {
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

    /// A size that is this number now, and at least `min` always.
    #[pyo3(signature = (hint, min=2, max=None))]
    fn size<'py>(slf: &Bound<'py, Self>, hint: i64, min: i64, max: Option<i64>) -> PyResult<Bound<'py, PyAny>> {
        if hint < min || max.is_some_and(|max| hint > max) {
            return Err(PyValueError::new_err("a size is out of its range"));
        }
        let symbol = slf.get().declare(hint, Interval::new(min, max.unwrap_or(LARGEST_SIZE)));
        class::wrap(slf, Dim::from(symbol))
    }

    /// What was assumed, each as text and where, innermost frame first.
    #[getter]
    fn guards(&self) -> Vec<(String, Vec<Line>)> {
        self.with(|known| Self::early(known).map(|(_, guard)| (guard.predicate.to_string(), guard.location.clone())).collect())
    }

    /// Of what was declared and met: its place, its symbol, and what that has turned out to be.
    #[getter]
    fn declared(&self) -> Vec<(usize, String, String)> {
        self.declared_in_words()
    }

    /// Which of the guards were declared to hold.
    #[getter]
    fn promised(&self) -> Vec<usize> {
        self.with(|known| {
            let early = Self::early(known).enumerate();
            early.filter(|(_, (at, _))| known.promised.contains(at)).map(|(place, _)| place).collect()
        })
    }

    /// Whether a guard, by its position, is about nothing but what 64 bits hold.
    fn is_about_range(&self, at: usize) -> bool {
        self.with(|known| {
            let bound = Self::early(known).nth(at).and_then(|(_, guard)| guard.predicate.right.known().or(guard.predicate.left.known()));
            bound.is_some_and(|bound| bound.unsigned_abs() >= COMPUTED.unsigned_abs())
        })
    }

    /// Whether all that was assumed holds where the symbols have these values.
    fn holds(&self, values: Vec<i64>) -> bool {
        let bindings = values.into_iter().enumerate().map(|(at, value)| (Symbol(at as u32), value)).collect();
        self.with(|known| known.scope.admits(&bindings))
    }

    /// The values of all symbols, from those of the symbols that recorded sizes name and inputs of the graph have, in order. The others are
    /// made of these; what no input has is in another part of the recording, and any number does for it.
    #[expect(clippy::needless_pass_by_value, reason = "of Python")]
    fn all_values(&self, named: Vec<i64>, bound: Vec<Option<(usize, usize)>>) -> PyResult<Vec<i64>> {
        let is_bound = |symbol: &Symbol| bound.get(symbol.0 as usize).is_some_and(Option::is_some);
        let (here, elsewhere): (Vec<Symbol>, Vec<Symbol>) = self.free().into_iter().map(|(symbol, _)| symbol).partition(is_bound);
        if here.len() != named.len() {
            return Err(PyValueError::new_err(format!("{} values for {} sizes", named.len(), here.len())));
        }
        let any = elsewhere.into_iter().map(|symbol| (symbol, 2));
        let bindings: Bindings = here.into_iter().zip(named).chain(any).collect();
        let value = |known: &Known, symbol: Symbol| Dim::from(symbol).simplify(&known.scope)?.at(&bindings);
        let values = self.with(|known| known.scope.symbols().map(|(symbol, _)| value(known, symbol)).collect::<Shape<_>>());
        values.map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Why the capture is for nothing, if it is.
    #[getter]
    fn failed(&self) -> Option<String> {
        self.with(|known| known.failed.clone())
    }

    /// How many symbols there are.
    fn __len__(&self) -> usize {
        self.with(|known| known.scope.symbols().count())
    }

    /// A `torch.SymInt` of this capture's as the program has it.
    #[staticmethod]
    fn as_program<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        class::as_program(value)
    }

    /// A recorded size as text. Nothing is asked of it.
    #[staticmethod]
    fn text(value: &Bound<'_, PyAny>) -> PyResult<String> {
        Ok(expression(value)?.map_or_else(|| "?".to_owned(), |size| size.to_string()))
    }

    /// What `statically_known_true` of torch asks.
    fn _maybe_evaluate_static(&self, question: &Bound<'_, SizeNode>) -> bool {
        question.get().truth(question.py())
    }

    /// What `guard_or_false` and its relatives of torch ask.
    #[pyo3(signature = (node, size_oblivious=false, fallback_value=None))]
    fn evaluate_sym_node(&self, node: &Bound<'_, SizeNode>, size_oblivious: bool, fallback_value: Option<bool>) -> bool {
        let _ = (size_oblivious, fallback_value);
        node.get().truth(node.py())
    }

    /// A size that only running tells, at least `min`. The hint is for choices that any value allows.
    #[pyo3(signature = (min=0, max=None))]
    fn unbacked<'py>(slf: &Bound<'py, Self>, min: i64, max: Option<i64>) -> PyResult<Bound<'py, PyAny>> {
        // No two are taken for the same, nor for another size.
        const HINTS: &[i64] = &[11, 13, 17, 19, 23, 29, 31, 37];
        let this = slf.get();
        let hint = HINTS[this.unbacked_count() % HINTS.len()];
        let symbol = this.declare(hint, Interval::new(min, max.unwrap_or(LARGEST_SIZE)));
        this.with(|known| known.unbacked.symbols.insert(symbol));
        class::wrap(slf, Dim::from(symbol))
    }

    /// The symbol with this number, as a size.
    fn symbol<'py>(slf: &Bound<'py, Self>, number: u32) -> PyResult<Bound<'py, PyAny>> {
        class::wrap(slf, Dim::from(Symbol(number)))
    }

    /// Says whether what only running tells may be presumed to be 2 or more. Returns the numbers of the symbols of which something was
    /// presumed since the last time.
    fn presume(&self, may: bool) -> Vec<u32> {
        self.with(|known| {
            known.unbacked.presumes = may;
            std::mem::take(&mut known.unbacked.presumed).into_iter().map(|symbol| symbol.0).collect()
        })
    }

    /// What could not be decided, as text.
    #[getter(undecided)]
    fn undecided_text(&self) -> Option<String> {
        self.undecided().map(|(message, _)| message)
    }

    /// Whether symbols, by their numbers, can have these values at once, as far as that is known.
    fn can_be(&self, values: Vec<(u32, i64)>) -> bool {
        let mut scope = self.with(|known| known.scope.clone());
        let is = |(number, value)| Predicate::new(Dim::from(Symbol(number)), Relation::Eq, value);
        values.into_iter().all(|value| scope.assume(&is(value)).is_ok())
    }

    /// Has a symbol not have a value, which is checked when it is known.
    fn never(&self, number: u32, value: i64) -> bool {
        self.count_on(&Predicate::new(Dim::from(Symbol(number)), Relation::Ne, value))
    }

    /// A size where some symbols, by their numbers, have these values: a number, or an expression of the others.
    fn where_they_are<'py>(slf: &Bound<'py, Self>, size: &Bound<'py, PyAny>, values: Vec<(u32, i64)>) -> PyResult<Bound<'py, PyAny>> {
        let node = class::node_of(size)?;
        let failed = |error: ShapeError| PyValueError::new_err(error.to_string());
        let mut scope = slf.get().with(|known| known.scope.clone());
        for (number, value) in values {
            scope.assume(&Predicate::new(Dim::from(Symbol(number)), Relation::Eq, value)).map_err(failed)?;
        }
        class::wrap(slf, node.get().dim(slf.py()).simplify(&scope).map_err(failed)?)
    }

    /// What does not hold of values of the symbols, of which some are not known yet; None where all does that can be told.
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

    /// What is checked when the graph runs, each by the symbols that it is about, as numbers.
    fn checked(&self) -> Vec<Vec<u32>> {
        self.with(|known| {
            let numbers = |predicate: &Predicate| {
                let named = predicate.left.to_expr().symbols().into_iter().chain(predicate.right.to_expr().symbols());
                named.map(|symbol| symbol.0).collect()
            };
            let late = known.guards.iter().filter(|guard| Self::is_checked_late(known, guard)).map(|guard| numbers(&guard.predicate));
            // A tensor has no other sizes.
            let ranged = known.unbacked.symbols.iter().filter(|symbol| known.ranges.get(symbol.0 as usize) != Some(&(0, LARGEST_SIZE)));
            late.chain(ranged.map(|symbol| vec![symbol.0])).collect()
        })
    }

    /// Takes all that only running tells for 2 or more, once nothing more is recorded: what is compiled is for such.
    fn take_for_many(&self) {
        self.with(|known| {
            for symbol in known.unbacked.symbols.clone() {
                // What is less for sure is a number.
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
