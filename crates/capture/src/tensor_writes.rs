//! Writes to what tensors have of their own: `t.grad = g`, `t.data = x`, `t.requires_grad_(False)`.
//!
//! They are noted like those to attributes, see [`crate::written`], and done by torch's own setters once the graph has run: of a tensor
//! that existed before the frame, to which nothing has happened until then. What reads them consults the notes. What a graph computes
//! of such a tensor it computes of the tensor as it was, so that the frame must not use it otherwise from then on: the session sees to that.

use std::rc::Rc;

use dynamlir_cpython_abi::kind;
use dynamlir_guards::{Relation, Source, SourceId};
use pyo3::{
    intern,
    prelude::*,
    types::{PyBool, PyList, PyString},
};

use crate::{
    attributes::{lookup, text},
    calls::Keywords,
    graph_break::reason,
    state::{Capture, Outcome, Tracked, Written, WrittenKind},
    written::{Overlay, Place},
};

impl<'py> Capture<'py> {
    /// `tensor.name = value`, or `del tensor.name`.
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
        // In torch's words, which are about fakes: what it refuses ends the capture.
        let checked = self.ask(if key == "grad" { "check_grad" } else { "check_data" }, (fake, &value.object));
        checked.map_err(|error| self.refused_by_torch(error))?;
        self.note_tensor(&real, source, name, value)?;
        if key == "data" {
            self.note_set(fake, "data")?;
        }
        Ok(())
    }

    /// `tensor.requires_grad_(value)`; None for another tensor than one of the frame's that it is so of, or that existed before.
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
        // Of the fake it is set at once, so that later operations have the history that they have in eager.
        if fake.getattr(intern!(self.py, "requires_grad"))?.is_truthy()? == wanted.is_true() {
            return Ok(());
        }
        let Some((real, source)) = self.real_of(fake) else { return refuse("a tensor of the frame's own") };
        let leaf = self.guards.source(Source::GetAttr(source, "is_leaf".into()));
        self.guarded(self.guards.equals(leaf, &real.getattr("is_leaf")?))?;
        if !real.getattr("is_leaf")?.is_truthy()? {
            return refuse("a tensor that is no leaf");
        }
        if !self.ask("may_require_grad", (fake,))?.is_truthy()? {
            return refuse("a tensor of whole numbers, or of inference mode,");
        }
        self.note_tensor(&real, source, intern!(self.py, "requires_grad"), &Tracked::new(value.object.clone()))?;
        self.note_set(fake, "requires_grad")
    }

    /// Says what was set of a tensor that existed before.
    fn note_set(&self, fake: &Bound<'py, PyAny>, what: &str) -> Outcome<()> {
        let noted = self.ask("note_set", (fake, what, PyList::new(self.py, self.location())?));
        noted.map(drop).map_err(|error| self.refused_by_torch(error))
    }

    /// Notes a write, which torch's own setter does after the graph.
    fn note_tensor(&self, real: &Bound<'py, PyAny>, source: SourceId, name: &Bound<'py, PyString>, value: &Tracked<'py>) -> Outcome<()> {
        let key = text(name)?;
        let class = real.get_type();
        let (own, setter) = (lookup(&class, "__setattr__")?, lookup(&class, &key)?);
        let generic = lookup(&self.py.get_type::<PyAny>(), "__setattr__")?;
        let plain = own.zip(generic).is_some_and(|(own, generic)| own.is(&generic));
        let Some(setter) = setter.filter(|setter| plain && kind::is_getset_descriptor(setter)) else {
            return self.break_graph(reason::TENSOR_ESCAPE, format!("sets the attribute {name} of a tensor, of which somebody is told"));
        };
        self.pin_class_entry(real, source, intern!(self.py, "__setattr__"))?;
        self.pin_member(&class, &key, &setter)?;
        let stored = self.guards.source(Source::GetAttr(source, key.as_str().into()));
        let storage = real.as_ptr() as usize;
        self.note(Place { kind: WrittenKind::Attribute, owner: real, source, stored, storage, name: key, now: None }, Some(value))
    }

    /// What the frame has written to an attribute of a tensor's own, of a tensor that existed before it.
    pub(crate) fn written_to_tensor(&self, real: &Bound<'py, PyAny>, key: &str) -> Option<Tracked<'py>> {
        if self.writes.is_quiet() {
            return None;
        }
        match self.written_at(real.as_ptr() as usize, if key == "_grad" { "grad" } else { key }) {
            Overlay::Set(value) => Some(value),
            Overlay::Untouched | Overlay::Deleted => None,
        }
    }

    /// Guards that tensors which were written to, or under which something was put into a dict, are none of the others that were met.
    pub(crate) fn tell_tensors_apart(&self, writes: &[Rc<Written>]) {
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
