//! `is`, and operations that implicitly depend on it: C code finds a `nan` in a container by identity.
//!
//! Values that are guarded by equality may be one object at one call and two at the next. Where that makes a difference, it is guarded as
//! well.

use std::ops::RangeInclusive;

use dynamlir_guards::{Constant, Guard, Relation, SourceId};
use pyo3::{
    prelude::*,
    types::{PyComplex, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PySet, PyTuple},
};
use rustc_hash::FxHashSet;

use crate::{
    floors::{Numbers, Sources},
    graph_break::{Outcome, reason},
    objects::{Tracked, contents::is_deque, type_name},
    values::ledger_uses::has_name,
};

/// Ints that exist as a single object each.
pub(crate) const SINGLE: RangeInclusive<i64> = -5..=256;

impl<'py> Sources<'py> {
    /// Returns true if `value` may be replaced by `other` before the next call: both are classes or functions, and `other` existed before
    /// the frame.
    fn may_be(&self, value: &Tracked<'py>, other: &Tracked<'py>) -> bool {
        has_name(&value.object) && has_name(&other.object) && !self.is_young(&other.object)
    }

    /// Guards that two values, each guarded by equality, stay one object or stay two, where both are possible.
    fn guard_sameness(&self, lhs: &Tracked<'py>, rhs: &Tracked<'py>, same: bool) -> Outcome<()> {
        let constant = |value: &Tracked<'py>| self.guarded(Constant::new(&value.object).map_err(Into::into));
        if !same {
            let (left, right) = (constant(lhs)?, constant(rhs)?);
            if left.zip(right).is_some_and(|(left, right)| left != right) {
                return Ok(());
            }
        } else if self.is_single(&lhs.object)? {
            return Ok(());
        }
        let known = |value: &Tracked<'py>| self.source(value);
        match (known(lhs), known(rhs)) {
            // Created by the frame, or constants in its code: the same at each call.
            (None, None) => Ok(()),
            (Some(left), Some(right)) if left == right => Ok(()),
            (Some(left), Some(right)) => {
                self.guards.relate(if same { Relation::Same(left, right) } else { Relation::Distinct(vec![left, right]) });
                Ok(())
            }
            (Some(source), None) | (None, Some(source)) if same => match self.guards.this_object(source, &lhs.object) {
                Ok(()) => Ok(()),
                Err(_) => self.refuse_sameness(&lhs.object),
            },
            _ => self.refuse_sameness(&lhs.object),
        }
    }

    fn refuse_sameness(&self, object: &Bound<'py, PyAny>) -> Outcome<()> {
        self.break_graph(reason::UNGUARDABLE, format!("which {} it is, of several that are equal", type_name(object)))
    }

    /// Returns true if only one object has this value: None, a bool, a dtype, a small int.
    fn is_single(&self, object: &Bound<'py, PyAny>) -> Outcome<bool> {
        if object.is(self.py.NotImplemented()) {
            return Ok(true);
        }
        if object.is_exact_instance_of::<PyInt>() {
            return Ok(object.extract::<i64>().is_ok_and(|number| SINGLE.contains(&number)));
        }
        Ok(self.guarded(Constant::new(object).map_err(Into::into))?.is_some_and(|constant| constant.is_singleton()))
    }

    /// Ends the capture where `nan` is looked up in a container that may hold it.
    pub(crate) fn refuse_nan(&self, container: &Bound<'py, PyAny>, key: &Bound<'py, PyAny>) -> Outcome<()> {
        if !is_nan(key) {
            return Ok(());
        }
        let builtin = self.torch.is_container(container) && !container.is_instance_of::<PyDict>();
        if builtin && self.source_of(container).is_none() && self.count_nans([container])? == (0, 0) {
            return Ok(());
        }
        self.break_graph(reason::UNGUARDABLE, "a look for nan, which is found by what object it is")
    }

    /// Notes the source of a `nan`: all have an equal value, and this one is recognized when it comes out of a container again.
    pub(crate) fn note_nan(&self, value: &Bound<'py, PyAny>, source: SourceId) {
        if !self.is_one_nan(value) {
            return;
        }
        let address = value.as_ptr() as usize;
        let known = self.existing.nans.borrow().get(&address).map(|(_, known)| *known);
        match known {
            None => {
                self.existing.nans.borrow_mut().insert(address, (value.clone().unbind(), source));
            }
            Some(known) if known != source => self.guards.relate(Relation::Same(known, source)),
            Some(_) => {}
        }
    }

    /// Returns the source of a `nan`, if it existed before the frame.
    pub(crate) fn nan_at(&self, value: &Bound<'py, PyAny>) -> Option<SourceId> {
        self.existing.nans.borrow().get(&(value.as_ptr() as usize)).map(|(_, source)| *source)
    }

    /// Ends the capture where C code compares values that include more than one `nan`: inside containers they are equal if they are one
    /// object. If values are `hashed`, one is enough.
    pub(crate) fn refuse_nans<'a>(&self, values: impl IntoIterator<Item = &'a Bound<'py, PyAny>>, hashed: bool) -> Outcome<()>
    where
        'py: 'a,
    {
        let (alone, within) = self.count_nans(values)?;
        if hashed && alone + within > 0 || within > 0 && alone + within > 1 {
            return self.break_graph(reason::UNGUARDABLE, "a comparison of nan with nan, which goes by what object it is");
        }
        Ok(())
    }

    /// Returns the number of these values that are `nan`, and the number of `nan`s inside the others.
    fn count_nans<'a>(&self, values: impl IntoIterator<Item = &'a Bound<'py, PyAny>>) -> Outcome<(usize, usize)>
    where
        'py: 'a,
    {
        let (mut alone, mut within) = (0, 0);
        let mut seen = FxHashSet::default();
        let mut waiting: Vec<_> = values.into_iter().map(|value| (value.clone(), false)).collect();
        while let Some((value, inner)) = waiting.pop() {
            if self.is_one_nan(&value) {
                *(if inner { &mut within } else { &mut alone }) += 1;
            } else if !self.torch.is_primitive(&value) && !self.torch.is_tensor(&value) && seen.insert(value.as_ptr() as usize) {
                waiting.extend(held(&value)?.into_iter().map(|item| (item, true)));
            }
        }
        Ok((alone, within))
    }

    fn is_one_nan(&self, value: &Bound<'py, PyAny>) -> bool {
        value.cast::<PyFloat>().is_ok_and(|number| number.value().is_nan())
            || value.cast::<PyComplex>().is_ok_and(|number| number.real().is_nan() || number.imag().is_nan())
            || self.torch.is_numpy_scalar(value) && value.extract::<f64>().is_ok_and(f64::is_nan)
    }
}

impl<'py> Numbers<'py> {
    /// `lhs is rhs`.
    pub fn is_same(&self, lhs: &Tracked<'py>, rhs: &Tracked<'py>) -> Outcome<bool> {
        if let Some(same) = self.is_same_number(lhs, rhs)? {
            return Ok(same);
        }
        if let Some(same) = self.is_same_size(lhs, rhs)? {
            return Ok(same);
        }
        let same = lhs.object.is(&rhs.object);
        // A tensor is noted only once, not with each place where it is found again.
        let source = |value: &Tracked<'py>| self.source(value).or_else(|| self.input_source(&value.object));
        match (source(lhs), source(rhs)) {
            (Some(left), Some(right)) if !self.torch.is_primitive(&lhs.object) && !self.torch.is_primitive(&rhs.object) => {
                if left == right {
                    // One of the two may have come from elsewhere: `type(3)` is the `int` that was found here.
                    if has_name(&lhs.object) {
                        self.pin(&lhs.object, left)?;
                    }
                } else {
                    self.guards.relate(if same { Relation::Same(left, right) } else { Relation::Distinct(vec![left, right]) });
                }
            }
            _ => {
                for (value, other) in [(lhs, rhs), (rhs, lhs)] {
                    match source(value) {
                        Some(_) if self.torch.is_fake(&value.object) => {}
                        Some(_) if self.torch.is_primitive(&value.object) => self.guard_value(value)?,
                        // Another existing object of the same class may take its place.
                        Some(source) if self.may_be(value, other) => self.pin(&value.object, source)?,
                        // Compared with an object that the frame created, or a constant: only its type matters.
                        Some(source) => self.guards.add(source, Guard::Type(value.object.get_type().into_any().unbind())),
                        None => {}
                    }
                }
                if self.torch.is_primitive(&lhs.object) && self.torch.is_primitive(&rhs.object) {
                    self.guard_sameness(lhs, rhs, same)?;
                }
            }
        }
        Ok(same)
    }
}

/// Returns the contents of a container, as C code sees them.
fn held<'py>(value: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    Ok(if let Ok(items) = value.cast::<PyTuple>() {
        items.iter().collect()
    } else if let Ok(items) = value.cast::<PyList>() {
        items.iter().collect()
    } else if let Ok(items) = value.cast::<PyDict>() {
        items.iter().flat_map(|(key, item)| [key, item]).collect()
    } else if let Ok(items) = value.cast_exact::<PySet>() {
        items.iter().collect()
    } else if let Ok(items) = value.cast_exact::<PyFrozenSet>() {
        items.iter().collect()
    } else if is_deque(value)? {
        value.try_iter()?.collect::<PyResult<_>>()?
    } else {
        Vec::new()
    })
}

/// Returns true if a key is `nan`, or holds one: it is found by identity, which is not guarded.
pub(crate) fn is_nan(key: &Bound<'_, PyAny>) -> bool {
    let mut waiting = vec![key.clone()];
    while let Some(value) = waiting.pop() {
        if let Ok(items) = value.cast_exact::<PyTuple>() {
            waiting.extend(items.iter());
        } else if let Ok(items) = value.cast_exact::<PyFrozenSet>() {
            waiting.extend(items.iter());
        } else if value.cast::<PyFloat>().is_ok_and(|number| number.value().is_nan())
            || value.cast::<PyComplex>().is_ok_and(|number| number.real().is_nan() || number.imag().is_nan())
        {
            return true;
        }
    }
    false
}
