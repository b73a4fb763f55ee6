//! Unpacking: all items of an iterable at once, on their own or as the arguments of a call.

use dynamlir_guards::Source;
use dynamlir_interpreter::semantics;
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    types::{PyDict, PyIterator, PyList, PyTuple},
};

use crate::{
    floors::Reads,
    graph_break::{Halt, Outcome},
    objects::{Tracked, lookup::lookup, special_names},
};

impl<'py> Reads<'py> {
    /// Returns the items of a sequence, exactly `count` of them, for unpacking.
    pub fn unpack(&self, value: &Tracked<'py>, count: usize) -> Outcome<Vec<Tracked<'py>>> {
        let object = &value.object;
        if let Some(copy) = self.changed(object)? {
            return self.unpack(&Tracked::new(copy), count);
        }
        if let Some(source) = self.source_of(object)
            && (object.is_exact_instance_of::<PyList>() || object.is_exact_instance_of::<PyTuple>())
        {
            self.pin_type(object, source)?;
            self.guards.length(source, object.len()?);
            if object.len()? == count {
                return (0..count)
                    .map(|at| self.wrap(object.get_item(at)?, self.guards.source(Source::Index(source, at as u32))))
                    .collect();
            }
        }
        let iterator = match self.iter(value) {
            Err(Halt::Raise(error)) => return Err(Halt::Raise(semantics::not_unpacked(object, error))),
            other => other?,
        };
        let items = self.taken(&iterator, Some(count))?;
        if items.len() < count {
            let message = format!("not enough values to unpack (expected {count}, got {})", items.len());
            return Err(Halt::Raise(PyValueError::new_err(message)));
        }
        if items.len() > count {
            let message = format!("too many values to unpack (expected {count})");
            return Err(Halt::Raise(PyValueError::new_err(message)));
        }
        Ok(items)
    }

    /// Returns the arguments that `*args` passes to a call.
    pub(crate) fn spread_arguments(&self, callable: &Bound<'py, PyAny>, args: &Tracked<'py>) -> Outcome<Tracked<'py>> {
        let object = &args.object;
        self.guard_value(args)?;
        let unknown = self.source_of(object).is_none() && !self.torch.is_fake(object);
        self.refuse_changed_beneath(object)?;
        if object.is_exact_instance_of::<PyTuple>() || unknown || lookup(&object.get_type(), "__iter__")?.is_none() {
            let tuple = semantics::argument_tuple(callable, object).map_err(Halt::from);
            return Ok(Tracked { object: self.or_lacking(tuple, object, special_names::ITERATED)?, source: args.source });
        }
        let items = self.unpack_any(args)?;
        Ok(Tracked::new(PyTuple::new(self.py, items.into_iter().map(|item| item.object))?.into_any()))
    }

    /// Evaluates `[…, *iterable]`, for a list of the frame.
    pub(crate) fn extend(&self, list: &Bound<'py, PyAny>, iterable: &Tracked<'py>) -> Outcome<()> {
        let readable = self.readable(iterable)?;
        let extended = semantics::list_extend(list, &readable).map_err(Halt::from);
        self.or_lacking(extended, &readable, special_names::ITERATED)
    }

    /// Evaluates `{…, *iterable}`, for a set of the frame.
    pub(crate) fn add_all(&self, set: &Bound<'py, PyAny>, iterable: &Tracked<'py>) -> Outcome<()> {
        let readable = self.readable(iterable)?;
        self.guard_inside([&readable], special_names::HASH)?;
        self.addressed([&readable])?;
        let updated = semantics::set_update(set, &readable).map_err(Halt::from);
        self.or_lacking(updated, &readable, special_names::ITERATED)
    }

    /// Returns the arguments that `**kwargs` passes to a call.
    pub(crate) fn spread_mapping(&self, callable: &Bound<'py, PyAny>, kwargs: &Tracked<'py>) -> Outcome<Tracked<'py>> {
        let object = &kwargs.object;
        if let Some(copy) = self.changed(object)? {
            return self.spread_mapping(callable, &Tracked::new(copy));
        }
        if object.is_exact_instance_of::<PyDict>() || self.source_of(object).is_none() {
            return Ok(Tracked { object: semantics::keyword_dict(callable, object)?, source: kwargs.source });
        }
        let dict = semantics::keyword_dict(callable, &self.readable(kwargs)?).map_err(Halt::from);
        Ok(Tracked::new(self.or_lacking(dict, object, special_names::SPREAD)?))
    }

    /// Returns all items of an iterable.
    pub fn unpack_any(&self, value: &Tracked<'py>) -> Outcome<Vec<Tracked<'py>>> {
        self.taken(&self.iter(value)?, None)
    }

    /// Returns the remaining items of an iterator: at most `limit + 1` of them, if there is a limit.
    fn taken(&self, iterator: &Tracked<'py>, limit: Option<usize>) -> Outcome<Vec<Tracked<'py>>> {
        let mut items = Vec::new();
        self.refuse_changed_beneath(&iterator.object)?;
        // `iter()` is not called on it again: it may not have an `__iter__`.
        for item in iterator.object.cast::<PyIterator>().map_err(PyErr::from)?.clone() {
            items.push(self.wrap_untracked(item?)?);
            if limit.is_some_and(|limit| items.len() > limit) {
                break;
            }
        }
        Ok(items)
    }
}
