//! Writes to a tensor's own attributes: `t.grad = g`, `t.data = x`, `t.requires_grad_(False)`.
//!
//! They are recorded like writes to attributes, see [`crate::heap::attribute_writes`], and performed by torch's own setters once the graph has
//! run: on a tensor that existed before the frame, and that stays unchanged until then. Reads consult these records. The graph computes
//! with such a tensor as it was before the write, so the frame must not use it in other ways from then on; the session ensures that.

use std::rc::Rc;

use dynamlir_cpython_abi::kind;
use dynamlir_guards::{Relation, Source, SourceId};
use pyo3::{
    intern,
    prelude::*,
    types::{PyBool, PyList, PyString},
};

use crate::{
    floors::{Heap, Writes},
    graph_break::{Outcome, reason},
    heap::attribute_writes::{Overlay, WriteTarget},
    objects::{
        Tracked,
        callables::Keywords,
        lookup::{lookup, text},
    },
    state::{Written, WrittenKind},
};

impl<'py> Writes<'py> {
    /// Reports what was set on a tensor that existed before.
    pub(crate) fn note_set(&self, fake: &Bound<'py, PyAny>, what: &str) -> Outcome<()> {
        let noted = self.recorder().note_set(fake, what, &PyList::new(self.py, self.location())?);
        noted.map_err(|error| self.refused_by_torch(error))
    }

    /// Returns what the frame has written to a built-in attribute of a tensor that existed before it.
    pub(crate) fn written_to_tensor(&self, real: &Bound<'py, PyAny>, key: &str) -> Option<Tracked<'py>> {
        if self.writes.is_quiet() {
            return None;
        }
        match self.written_at(real.as_ptr() as usize, if key == "_grad" { "grad" } else { key }) {
            Overlay::Set(value) => Some(value),
            Overlay::Untouched | Overlay::Deleted => None,
        }
    }

    /// Guards that tensors which were written to, or used as keys to write to a dict, are distinct from all other input tensors.
    pub(super) fn tell_tensors_apart(&self, writes: &[Rc<Written>]) {
        let concerns = |object: &Py<PyAny>| self.torch.is_tensor(object.bind(self.py));
        if writes.iter().any(|written| concerns(&written.owner) || written.key.as_ref().is_some_and(concerns)) {
            let inputs = self.tensors.inputs.borrow();
            let mut sources: Vec<_> = inputs.iter().filter(|input| !input.number).map(|input| input.source).collect();
            sources.sort_unstable();
            if sources.len() > 1 {
                self.guards.relate(Relation::Distinct(sources));
            }
        }
    }
}

impl<'py> Heap<'py> {
    /// Handles `tensor.name = value`, or `del tensor.name`.
    pub(crate) fn write_tensor(&self, fake: &Bound<'py, PyAny>, name: &Bound<'py, PyString>, value: Option<&Tracked<'py>>) -> Outcome<()> {
        let key = text(name)?;
        let refuse = || self.break_graph(reason::TENSOR_ESCAPE, format!("sets the attribute {name} of a tensor"));
        let Some(value) = value.filter(|_| matches!(key.as_str(), "data" | "grad" | "requires_grad")) else { return refuse() };
        if self.torch.is_number(fake) || self.torch.is_number(&value.object) {
            return refuse();
        }
        if key == "requires_grad" {
            return self.write_requires_grad(fake, value);
        }
        let Some((real, source)) = self.real_of(fake) else { return refuse() };
        if !(self.torch.is_fake(&value.object) || key == "grad" && value.object.is_none()) {
            return refuse();
        }
        // If torch refuses it, the capture ends, because torch's message is about fakes.
        let recorder = self.recorder();
        let checked = if key == "grad" { recorder.check_grad(fake, &value.object) } else { recorder.check_data(fake, &value.object) };
        checked.map_err(|error| self.refused_by_torch(error))?;
        self.note_tensor(&real, source, name, value)?;
        if key == "data" {
            self.note_set(fake, "data")?;
        }
        Ok(())
    }

    /// Handles `tensor.requires_grad_(value)`; `None` if the arguments have another form. Ends the capture unless the tensor existed before
    /// the frame or already has this value.
    pub(crate) fn requires_grad_in_place(&self, args: &[Tracked<'py>], kwargs: &Keywords<'py>) -> Outcome<Option<Tracked<'py>>> {
        let value = match (&args[1..], &kwargs[..]) {
            ([], []) => Tracked::new(PyBool::new(self.py, true).to_owned().into_any()),
            ([value], []) => value.clone(),
            ([], [(name, value)]) if name == "requires_grad" => value.clone(),
            _ => return Ok(None),
        };
        if !value.object.is_exact_instance_of::<PyBool>() {
            return Ok(None);
        }
        self.write_requires_grad(&args[0].object, &value)?;
        Ok(Some(args[0].clone()))
    }

    fn write_requires_grad(&self, fake: &Bound<'py, PyAny>, value: &Tracked<'py>) -> Outcome<()> {
        let refuse = |why: &str| self.break_graph(reason::TENSOR_ESCAPE, format!("sets whether {why} requires a gradient"));
        let Ok(wanted) = value.object.cast_exact::<PyBool>() else { return refuse("a tensor") };
        self.guard_value(value)?;
        self.refuse_in_transform("requires_grad_()")?;
        // The fake is changed at once, so that later operations have the same history as in eager.
        if fake.getattr(intern!(self.py, "requires_grad"))?.is_truthy()? == wanted.is_true() {
            return Ok(());
        }
        let Some((real, source)) = self.real_of(fake) else { return refuse("a tensor of the frame's own") };
        let leaf = self.guards.source(Source::GetAttr(source, "is_leaf".into()));
        self.guarded(self.guards.equals(leaf, &real.getattr("is_leaf")?))?;
        if !real.getattr("is_leaf")?.is_truthy()? {
            return refuse("a tensor that is no leaf");
        }
        if !self.recorder().may_require_grad(fake)? {
            return refuse("a tensor of whole numbers, or of inference mode,");
        }
        self.note_tensor(&real, source, intern!(self.py, "requires_grad"), &Tracked::new(value.object.clone()))?;
        self.note_set(fake, "requires_grad")
    }

    /// Records a write that torch's own setter performs after the graph.
    fn note_tensor(&self, real: &Bound<'py, PyAny>, source: SourceId, name: &Bound<'py, PyString>, value: &Tracked<'py>) -> Outcome<()> {
        let key = text(name)?;
        let class = real.get_type();
        let (own, setter) = (lookup(&class, "__setattr__")?, lookup(&class, &key)?);
        let generic = lookup(&self.py.get_type::<PyAny>(), "__setattr__")?;
        let plain = own.zip(generic).is_some_and(|(own, generic)| own.is(&generic));
        let Some(setter) = setter.filter(|setter| plain && kind::is_getset_descriptor(setter)) else {
            return self.break_graph(reason::TENSOR_ESCAPE, format!("sets the attribute {name} of a tensor, which notifies other code"));
        };
        self.pin_class_entry(real, source, intern!(self.py, "__setattr__"))?;
        self.pin_member(&class, &key, &setter)?;
        let stored = self.guards.source(Source::GetAttr(source, key.as_str().into()));
        let storage = real.as_ptr() as usize;
        self.note(WriteTarget { kind: WrittenKind::Attribute, owner: real, source, stored, storage, name: key, now: None }, Some(value))
    }
}
