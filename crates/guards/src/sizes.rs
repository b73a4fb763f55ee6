//! Dynamic sizes: the places of a capture's symbols, and the assumptions about them.
//!
//! A check reads each symbol where it is *bound* (a size of a tensor that other guards have checked, or an int), compares the other sizes
//! and strides with their expressions, and evaluates the predicates. Nothing is allocated.

use dynamlir_shapes::{Dim, Expr, LARGEST_SIZE, Predicate, Relation as Compared, Symbol};
use dynamlir_trails::tensor_of;
use pyo3::{prelude::*, types::PyInt};
use smallvec::SmallVec;

use crate::{SourceId, Sources};

/// A number of a tensor's metadata, or an int.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Extent {
    /// A size.
    Size(usize),
    /// A stride, in elements.
    Stride(usize),
    /// An int itself. Its type is guarded.
    Int,
    /// The absolute value of a negative int.
    Negated,
}

impl Extent {
    /// Reads the number from an object; that of an int is passed as its only size.
    #[inline]
    fn of(self, sizes: &[i64], strides: &[i64]) -> Option<i64> {
        match self {
            Self::Size(d) => sizes.get(d).copied(),
            Self::Stride(d) => strides.get(d).copied(),
            Self::Int => sizes.first().copied(),
            Self::Negated => sizes.first()?.checked_neg(),
        }
    }

    /// Returns the extent as a Python expression.
    fn text(self, value: &str) -> String {
        match self {
            Self::Size(d) => format!("{value}.size()[{d}]"),
            Self::Stride(d) => format!("{value}.stride()[{d}]"),
            Self::Int => value.to_owned(),
            Self::Negated => format!("-{value}"),
        }
    }
}

/// Calls `work` with the sizes and strides of a tensor, or with an int as the only size; returns None for anything else.
#[inline]
fn with_numbers<R>(object: &Bound<'_, PyAny>, work: impl FnOnce(&[i64], &[i64]) -> R) -> PyResult<Option<R>> {
    if object.is_exact_instance_of::<PyInt>() {
        // An int that does not fit into 64 bits is not a size.
        return Ok(object.extract::<i64>().ok().map(|value| work(&[value], &[])));
    }
    Ok(tensor_of(object)?.and_then(|tensor| tensor.with_shape(work)))
}

/// Returns the size of a symbol that is bound to a dimension of this object. For an int used as a size, it is the absolute value.
///
/// # Errors
/// If torch cannot be imported.
pub fn size_in(object: &Bound<'_, PyAny>, dimension: usize) -> PyResult<Option<i64>> {
    if object.is_exact_instance_of::<PyInt>() {
        return Ok(object.extract::<i64>().ok().and_then(i64::checked_abs));
    }
    Ok(tensor_of(object)?.and_then(|tensor| tensor.size_at(dimension)))
}

/// The dynamic sizes of a capture, and their conditions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SizeRelation {
    /// The extents to read, with their expressions. A symbol is bound where it first occurs alone.
    pub extents: Vec<(SourceId, Extent, Dim)>,
    /// The least and the largest value of each symbol, by its number.
    pub ranges: Vec<(i64, i64)>,
    /// The assumed predicates.
    pub assumed: Vec<Predicate>,
}

impl SizeRelation {
    /// Returns the predicates as text: the place of each size, the ranges, and the assumptions.
    pub(crate) fn texts(&self, sources: &Sources) -> Vec<String> {
        let places = self.extents.iter().enumerate().map(|(at, (source, extent, size))| {
            let place = extent.text(&sources.expression(*source));
            if self.binds(at).is_some() { format!("({size} := {place})") } else { format!("{place} == {size}") }
        });
        let ranges = self.ranges.iter().enumerate().map(|(number, range)| range_text(number, *range));
        places.chain(ranges).chain(self.assumed.iter().map(ToString::to_string)).collect()
    }

    /// Returns the symbol that is bound by an extent.
    fn binds(&self, at: usize) -> Option<usize> {
        let symbol = self.extents[at].2.as_symbol()?;
        let is_first = !self.extents[..at].iter().any(|(.., size)| size.as_symbol() == Some(symbol));
        is_first.then_some(symbol.0 as usize)
    }

    /// Returns the condition that fails for these tensors, one for each extent, and the actual value.
    pub(crate) fn failure<'a, 'py: 'a>(
        &self,
        sources: &Sources,
        value: &dyn Fn(usize) -> Option<&'a Bound<'py, PyAny>>,
    ) -> PyResult<Option<(String, String)>> {
        let mut values = vec![0; self.ranges.len()];
        for (at, (source, extent, size)) in self.extents.iter().enumerate() {
            let numbers = value(at).map(|object| with_numbers(object, |sizes, strides| extent.of(sizes, strides))).transpose()?;
            let Some(found) = numbers.flatten().flatten() else {
                return Ok(Some((sources.expression(*source), "no size".to_owned())));
            };
            if let Some(symbol) = self.binds(at) {
                values[symbol] = found;
            } else if evaluated(&size.to_expr(), &values) != Some(found) {
                return Ok(Some((format!("{} == {size}", extent.text(&sources.expression(*source))), found.to_string())));
            }
        }
        let seen = |symbols: &mut dyn Iterator<Item = usize>| {
            let seen: Vec<_> = symbols.map(|number| format!("{} = {}", Symbol(number as u32), values[number])).collect();
            seen.join(", ")
        };
        for (number, range) in self.ranges.iter().enumerate() {
            if !(range.0..=range.1).contains(&values[number]) {
                return Ok(Some((range_text(number, *range), seen(&mut std::iter::once(number)))));
            }
        }
        let failed = self.assumed.iter().find(|predicate| !holds(predicate, &values));
        Ok(failed.map(|predicate| {
            let mut symbols = predicate.left.to_expr().symbols();
            symbols.extend(predicate.right.to_expr().symbols());
            (predicate.to_string(), seen(&mut symbols.into_iter().map(|symbol| symbol.0 as usize)))
        }))
    }
}

fn range_text(number: usize, (min, max): (i64, i64)) -> String {
    let symbol = Symbol(number as u32);
    if max == LARGEST_SIZE { format!("{symbol} >= {min}") } else { format!("{min} <= {symbol} <= {max}") }
}

fn holds(predicate: &Predicate, values: &[i64]) -> bool {
    let side = |size: &Dim| size.known().or_else(|| evaluated(&size.to_expr(), values));
    side(&predicate.left).zip(side(&predicate.right)).is_some_and(|(left, right)| predicate.relation.holds(left, right))
}

/// Values of symbols, by their numbers.
type Values = SmallVec<[i64; 8]>;

/// The use of a number that was read.
enum Read {
    Bind(usize),
    Same(usize),
    Compare(Expr),
}

/// A [`SizeRelation`] prepared for checking.
pub(crate) struct SizeCheck {
    /// The reads of one tensor after the other, each with its index among the members.
    reads: Vec<(usize, Vec<(Extent, Read)>)>,
    ranges: Vec<(i64, i64)>,
    others: Vec<Predicate>,
}

impl SizeCheck {
    pub(crate) fn new(relation: &SizeRelation) -> Self {
        let mut reads: Vec<(usize, Vec<(Extent, Read)>)> = Vec::new();
        for (at, (source, extent, size)) in relation.extents.iter().enumerate() {
            if at == 0 || relation.extents[at - 1].0 != *source {
                reads.push((at, Vec::new()));
            }
            let same = || size.as_symbol().map(|symbol| Read::Same(symbol.0 as usize));
            let read = relation.binds(at).map(Read::Bind).or_else(same).unwrap_or_else(|| Read::Compare(size.to_expr()));
            if let Some((_, of_one)) = reads.last_mut() {
                of_one.push((*extent, read));
            }
        }
        let mut check = Self { reads, ranges: relation.ranges.clone(), others: Vec::new() };
        for predicate in &relation.assumed {
            check.take(predicate);
        }
        check
    }

    /// Adds a predicate; a bound of a symbol becomes a range.
    fn take(&mut self, predicate: &Predicate) {
        let (Some(symbol), Some(number)) = (predicate.left.as_symbol(), predicate.right.known()) else {
            self.others.push(predicate.clone());
            return;
        };
        let (min, max) = &mut self.ranges[symbol.0 as usize];
        match predicate.relation {
            Compared::Eq => (*min, *max) = ((*min).max(number), (*max).min(number)),
            Compared::Ge => *min = (*min).max(number),
            Compared::Le => *max = (*max).min(number),
            Compared::Gt if number < i64::MAX => *min = (*min).max(number + 1),
            Compared::Lt if number > i64::MIN => *max = (*max).min(number - 1),
            _ => self.others.push(predicate.clone()),
        }
    }

    /// Returns true if one tensor matches the symbols; binds some of them.
    fn fits(&self, reads: &[(Extent, Read)], sizes: &[i64], strides: &[i64], values: &mut [i64]) -> bool {
        reads.iter().all(|(extent, read)| {
            let Some(found) = extent.of(sizes, strides) else { return false };
            match read {
                Read::Bind(symbol) => {
                    values[*symbol] = found;
                    let (min, max) = self.ranges[*symbol];
                    min <= found && found <= max
                }
                Read::Same(symbol) => values[*symbol] == found,
                Read::Compare(expr) => evaluated(expr, values) == Some(found),
            }
        })
    }

    /// Returns true if the relation holds for these tensors, one for each extent.
    pub(crate) fn holds<'a, 'py: 'a>(&self, value: &dyn Fn(usize) -> Option<&'a Bound<'py, PyAny>>) -> PyResult<bool> {
        let mut values = Values::from_elem(0, self.ranges.len());
        for (member, reads) in &self.reads {
            let Some(object) = value(*member) else { return Ok(false) };
            if with_numbers(object, |sizes, strides| self.fits(reads, sizes, strides, &mut values))? != Some(true) {
                return Ok(false);
            }
        }
        Ok(self.others.iter().all(|predicate| holds(predicate, &values)))
    }
}

fn evaluated(expr: &Expr, values: &[i64]) -> Option<i64> {
    expr.evaluate(&|symbol| values.get(symbol.0 as usize).copied()).ok()
}
