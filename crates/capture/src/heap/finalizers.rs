//! Code that runs when an object created by the frame dies: a `__del__`, the rest of a generator, weak-reference callbacks.
//!
//! A death while the frame runs is seen: its code is interpreted like any other. An object that outlives the frame would run its code once,
//! at some later time, for all calls together; plain Python runs it for each call. Such a frame is not captured. Objects left over from an
//! abandoned capture are made to die silently before the frame runs again.

use std::rc::Rc;

use dynamlir_cpython_abi::object::references;
use dynamlir_guards::{Facet, Guard, Source, SourceId, is_bookkeeping, is_watched};
use dynamlir_interpreter::Activation;
use pyo3::{
    intern,
    prelude::*,
    types::{PyDict, PyList, PyTuple},
};

use crate::{
    floors::Writes,
    graph_break::{Outcome, reason},
    objects::{
        Tracked,
        contents::is_named,
        lookup::{instance_dict, lookup},
        type_name,
    },
    state::Held,
};

/// The maximum number of objects that are searched, inside containers, for objects whose death is noticed.
const MOST_ITEMS: usize = 64;

impl<'py> Writes<'py> {
    /// Called after the frame: none of its own objects that are still alive may run code when it dies. Any such code is disabled, and the
    /// capture then ends.
    pub(crate) fn outlived(&self) -> Outcome<()> {
        let Some(births) = &self.own.births else { return Ok(()) };
        let Some(objects) = births.with_finalizers(self.py) else {
            return self.break_graph(reason::SIDE_EFFECT, "the garbage collector has run during the call");
        };
        let mut found = None;
        for object in objects {
            if self.runs_code_when_it_dies(&object)? {
                births.defuse(&object);
                found.get_or_insert_with(|| type_name(&object));
                let born = self.progress.born(object.as_ptr() as usize);
                self.progress.doomed.set(self.progress.doomed.get().into_iter().chain(born).min());
            }
        }
        match found {
            Some(name) => self.break_graph(reason::SIDE_EFFECT, format!("a {name} outlives the call, and runs code when it dies")),
            None => Ok(()),
        }
    }

    fn runs_code_when_it_dies(&self, object: &Bound<'py, PyAny>) -> PyResult<bool> {
        let (types, inspect) = (dynamlir_cpython_abi::import(self.py, "types")?, dynamlir_cpython_abi::import(self.py, "inspect")?);
        let class = object.get_type();
        if class.is(&types.getattr("GeneratorType")?) {
            // A generator that has not begun, or that has ended, has nothing to clean up.
            return dynamlir_interpreter::suspended(|| inspect.call_method1("getgeneratorstate", (object,)))?.eq("GEN_SUSPENDED");
        }
        for (kind, frame) in [("CoroutineType", "cr_frame"), ("AsyncGeneratorType", "ag_frame")] {
            if class.is(&types.getattr(kind)?) {
                return Ok(!object.getattr(frame)?.is_none());
            }
        }
        // FakeTensorMode keeps one for each constant of the graph. Its `__del__` only touches torch's count.
        if class.is(&dynamlir_cpython_abi::import(self.py, "torch.multiprocessing.reductions")?.getattr("StorageWeakRef")?) {
            return Ok(false);
        }
        Ok(lookup(&class, "__del__")?.is_some())
    }

    /// Notes that a variable of a resumed frame holds this object: CPython's own frame does so until the call is over.
    pub(crate) fn note_standing(&self, frame: &Activation<'py>, slot: usize, object: &Bound<'py, PyAny>, source: SourceId) -> Outcome<()> {
        let watched = self.death_is_noticed(object)?;
        let place = Rc::as_ptr(frame.place()) as usize;
        self.progress.held.borrow_mut().insert((place, slot), Held { object: object.clone().unbind(), source, watched });
        Ok(())
    }

    /// Called when such a variable, or one that got a value from the stack of such a frame, is assigned again or deleted. If the death of
    /// the old value may be noticed, CPython does this itself.
    pub(crate) fn lets_go(&self, frame: &Activation<'py>, slot: usize) -> Outcome<()> {
        if !self.progress.is_resumed() {
            return Ok(());
        }
        let place = Rc::as_ptr(frame.place()) as usize;
        let held = self.progress.held.borrow_mut().remove(&(place, slot));
        let Some(held) = (if held.is_some() { held } else { self.held_on_stack(frame, slot)? }) else { return Ok(()) };
        let object = held.object.bind(self.py);
        if held.watched {
            let message = format!(
                "drops a {}, and destroying it, or something it holds, would run code or clear a weak reference",
                type_name(object)
            );
            return self.break_graph(reason::SIDE_EFFECT, message);
        }
        let is_plain = self.is_plain(object);
        self.progress.let_go.set(self.progress.let_go.get() || !is_plain);
        // Another call may hold another object there, or its death may be noticed by then.
        if is_plain || self.torch.is_tensor(object) {
            return self.pin_type(object, held.source);
        }
        self.guards.demand(held.source, Facet::Unwatched);
        self.guards.add(held.source, Guard::Unwatched);
        Ok(())
    }

    /// Returns the object in a variable if it was on the stack of a resumed frame, or in a tuple or list there, such as the result of a
    /// call.
    fn held_on_stack(&self, frame: &Activation<'py>, slot: usize) -> Outcome<Option<Held>> {
        let Some(object) = frame.local(slot).object else { return Ok(None) };
        let (object, source) = match self.real_of(&object) {
            Some(found) => found,
            None => match self.source_of(&object) {
                Some(source) => (object, source),
                None => return Ok(None),
            },
        };
        let mut root = source;
        while let Source::Index(of, _) = self.guards.get(root) {
            root = of;
        }
        if !self.progress.stacked.borrow().contains(&root) {
            return Ok(None);
        }
        let watched = self.death_is_noticed(&object)?;
        Ok(Some(Held { object: object.unbind(), source, watched }))
    }

    /// Returns true if an object holds nothing whose death could be noticed.
    fn is_plain(&self, object: &Bound<'py, PyAny>) -> bool {
        object.is_none() || self.torch.is_primitive(object)
    }

    /// Returns true if a finalizer or a weak reference may notice the death of an object, or of objects that it alone holds as attributes
    /// or as items of a builtin container: the death would come later than in plain Python. Guards check less: they exclude tensors.
    pub(super) fn death_is_noticed(&self, object: &Bound<'py, PyAny>) -> Outcome<bool> {
        if dynamlir_interpreter::suspended(|| is_watched(object))? {
            return Ok(true);
        }
        // Each with the maximum number of references of an object that is not shared: an attribute's value has the owner's and ours.
        let mut left = vec![(self.real_of(object).map_or_else(|| object.clone(), |(real, _)| real), isize::MAX)];
        for _ in 0..MOST_ITEMS {
            let Some((object, own)) = left.pop() else { return Ok(false) };
            if references(&object) > own || self.torch.is_primitive(&object) || is_named(&object) {
                continue;
            }
            if self.runs_code_when_it_dies(&object)? || self.is_referred_to_weakly(&object)? {
                return Ok(true);
            }
            match () {
                () if object.is_exact_instance_of::<PyDict>() => {
                    left.extend(object.cast::<PyDict>().map_err(PyErr::from)?.values().iter().map(|item| (item, isize::MAX)));
                }
                () if object.is_exact_instance_of::<PyList>() || object.is_exact_instance_of::<PyTuple>() => {
                    for item in object.try_iter()?.take(MOST_ITEMS) {
                        left.push((item?, isize::MAX));
                    }
                }
                () if self.torch.is_module(&object) => {}
                () => {
                    let values: Vec<_> = instance_dict(&object).into_iter().flat_map(|dict| dict.values()).collect();
                    left.extend(values.into_iter().map(|value| (value, 2)));
                }
            }
        }
        Ok(false)
    }

    /// Returns true if an object has weak references besides those of guards, and torch's own, by which torch recognizes tensors.
    fn is_referred_to_weakly(&self, object: &Bound<'py, PyAny>) -> PyResult<bool> {
        // References to a tensor that the graph computes are the fake's: the program does not have any, since creating one ends the
        // capture.
        if self.torch.is_fake(object) {
            return Ok(false);
        }
        let list = dynamlir_cpython_abi::import(self.py, "_weakref")?.getattr("getweakrefs")?;
        // A tensor's storage dies with it, unless other tensors have it. Some kinds of tensors do not have one.
        let storage = if self.torch.is_tensor(object) {
            dynamlir_interpreter::suspended(|| object.call_method0(intern!(self.py, "untyped_storage"))).ok()
        } else {
            None
        };
        for object in std::iter::once(object).chain(&storage) {
            for reference in dynamlir_interpreter::suspended(|| list.call1((object,)))?.try_iter()? {
                if !is_bookkeeping(&reference?)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Ends the capture at the creation of a weak reference that would not behave as in plain Python: one with a callback, which may run at
    /// any time; one to a tensor of the frame's own, which the graph holds for longer than the program does; one to an object that a
    /// resumed frame holds, since CPython's own frame holds it until the call is over.
    pub(crate) fn refuse_weak_reference(&self, args: &[Tracked<'py>]) -> Outcome<()> {
        let stands = |object: &Bound<'py, PyAny>| {
            let real = self.real_of(object).map_or_else(|| object.clone(), |(real, _)| real);
            self.progress.held.borrow().values().any(|held| held.object.is(&real))
        };
        if args.first().is_some_and(|referent| stands(&referent.object)) {
            return self.break_graph(reason::SIDE_EFFECT, "a weak reference to what a variable has held since before the graph");
        }
        let storage = dynamlir_cpython_abi::import(self.py, "torch")?.getattr("UntypedStorage")?;
        if let Some(referent) = args.first()
            && referent.object.is_instance(&storage)?
        {
            return self.break_graph(reason::SIDE_EFFECT, "a weak reference to a tensor's storage");
        }
        if let Some(referent) = args.first()
            && self.torch.is_fake(&referent.object)
            && self.real_of(&referent.object).is_none()
        {
            return self.break_graph(reason::SIDE_EFFECT, "a weak reference to a tensor that the call makes");
        }
        if args.get(1).is_some_and(|callback| !callback.object.is_none()) {
            return self.break_graph(reason::SIDE_EFFECT, "a weak reference with a callback");
        }
        Ok(())
    }
}
