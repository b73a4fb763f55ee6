//! Writes to global names and to variables of enclosing functions: noted like those to attributes, see [`crate::written`].
//!
//! Which dict the globals of the captured function are is guarded, so that nothing else is it at another call. Its cells are new with
//! each function that is made of the same code: that they are no others of the frame's is guarded where one is written.

use dynamlir_cpython_abi::kind;
use dynamlir_frame::settings::BREAKS_ARE_ERRORS;
use dynamlir_guards::{Relation, Source, SourceId};
use dynamlir_interpreter::{Activation, semantics};
use pyo3::{
    intern,
    prelude::*,
    types::{PyDict, PyModule, PyString},
};

use crate::{
    attributes::{instance_dict, text},
    graph_break::reason,
    kinds::is_of,
    state::{Capture, Outcome, Tracked, Written, WrittenKind},
    written::{Overlay, Place},
};

/// The name of a cell's only attribute.
const CONTENTS: &str = "cell_contents";

impl<'py> Capture<'py> {
    /// `global name; name = value`, or `del name`.
    pub(crate) fn write_global(&self, frame: &Activation<'py>, name: &Bound<'py, PyString>, value: Option<&Tracked<'py>>) -> Outcome<()> {
        let key = text(name)?;
        let verb = if value.is_some() { "sets" } else { "deletes" };
        let refuse = |why: &str| self.break_graph(reason::SIDE_EFFECT, format!("{verb} the global {key}{why}"));
        let Some(function) = frame.function() else { return refuse(", in code that is run without a function") };
        if self.effects.kinds.is_torch(&function) && !is_of(&function, BREAKS_ARE_ERRORS.0, &["_set_error_on_graph_break"])? {
            // Torch's functions that are not looked into may read it.
            return refuse(" of torch's");
        }
        if is_dunder(&key) {
            return refuse(", by which Python itself finds something");
        }
        let globals = frame.globals();
        self.refuse_changed(&globals)?;
        let owner = self.globals_owner(frame)?;
        let stored = match owner {
            Some(owner) => self.guards.source(Source::GlobalOf(owner, key.as_str().into())),
            None => self.guards.global(&key),
        };
        let source = match owner {
            Some(owner) => self.guards.source(Source::Globals(owner)),
            None => self.own_globals(&globals)?,
        };
        let now = globals.get_item(name).ok();
        let storage = globals.as_ptr() as usize;
        match (self.written_at(storage, &key), value) {
            (Overlay::Deleted, None) => return refuse(", which is deleted already"),
            (Overlay::Untouched, None) if now.is_none() => return refuse(", which is not there"),
            (Overlay::Untouched, None) => self.guards.present(stored),
            _ => {}
        }
        self.note(Place { kind: WrittenKind::Global, owner: &globals, source, stored, storage, name: key, now }, value)
    }

    /// The globals of the captured function, which are guarded to be these.
    fn own_globals(&self, globals: &Bound<'py, PyAny>) -> Outcome<SourceId> {
        let function = self.guards.source(Source::Function);
        let source = self.guards.source(Source::Globals(function));
        let name = globals.get_item(intern!(self.py, "__name__")).ok();
        let modules = dynamlir_cpython_abi::import(self.py, "sys")?.getattr("modules")?.cast_into::<PyDict>().map_err(PyErr::from)?;
        let module = name.map(|name| modules.get_item(name)).transpose()?.flatten();
        match module.filter(|module| instance_dict(module).is_some_and(|dict| dict.is(globals))) {
            Some(module) => {
                let held = self.guarded(self.guards.hold(&module, &format!("module {}", self.module_name(&module)?)))?;
                let dict = self.guards.source(Source::GetAttr(held, "__dict__".into()));
                self.guards.relate(Relation::Same(dict, source));
                Ok(source)
            }
            None => self.break_graph(reason::SIDE_EFFECT, "sets a global of what is not a module"),
        }
    }

    fn module_name(&self, module: &Bound<'py, PyAny>) -> PyResult<String> {
        module.getattr(intern!(self.py, "__name__"))?.extract()
    }

    /// What the frame has written to a global name, if it has.
    pub(crate) fn written_global(&self, frame: &Activation<'py>, name: &Bound<'py, PyString>) -> Outcome<Option<Tracked<'py>>> {
        if self.writes.is_quiet() {
            return Ok(None);
        }
        match self.written_at(frame.globals().as_ptr() as usize, &text(name)?) {
            Overlay::Untouched => Ok(None),
            Overlay::Set(value) => Ok(Some(value)),
            Overlay::Deleted => self.break_graph(reason::SIDE_EFFECT, format!("reads the global {name} after deleting it")),
        }
    }

    /// Notes a write to a variable of an enclosing function, whose content is reached there.
    pub(crate) fn write_cell(&self, cell: &Bound<'py, PyAny>, content: SourceId, value: Option<&Tracked<'py>>) -> Outcome<()> {
        let (storage, now) = (cell.as_ptr() as usize, semantics::cell_get(cell)?);
        let refuse = |what: &str| self.break_graph(reason::SIDE_EFFECT, format!("{what} a variable of an enclosing function"));
        let Some(source) = self.cell_at(content) else { return refuse("sets, by a way that is not known,") };
        if value.is_none() {
            match self.written_at(storage, CONTENTS) {
                Overlay::Set(_) => {}
                Overlay::Untouched if now.is_some() => self.guards.present(content),
                Overlay::Untouched | Overlay::Deleted => return refuse("deletes, though it has no value,"),
            }
        }
        let place = Place { kind: WrittenKind::Attribute, owner: cell, source, stored: content, storage, name: CONTENTS.to_owned(), now };
        self.note(place, value)
    }

    /// What the frame has made of a variable of an enclosing function.
    pub(crate) fn written_cell(&self, cell: &Bound<'py, PyAny>) -> Overlay<'py> {
        self.written_at(cell.as_ptr() as usize, CONTENTS)
    }

    /// Where a cell is reached whose content is reached there.
    fn cell_at(&self, content: SourceId) -> Option<SourceId> {
        Some(self.guards.source(match self.guards.get(content) {
            Source::Free { index, .. } => Source::ClosureCell(self.guards.source(Source::Function), index),
            Source::Closure { base, index, .. } => Source::ClosureCell(base, index),
            Source::Cell(cell) => return Some(cell),
            _ => return None,
        }))
    }

    /// Guards whether other cells are the one that was written.
    pub(crate) fn tell_cells_apart(&self, written: &Written) {
        let looked_at = self.existing.cells.borrow().iter().map(|(content, address)| (*content, *address)).collect::<Vec<_>>();
        let named = looked_at.into_iter().filter_map(|(content, address)| Some((self.cell_at(content)?, address)));
        let others = self.existing_where(|object, _| kind::is_cell(object));
        let others = others.into_iter().filter_map(|source| Some((source, self.existing_at(source)?.as_ptr() as usize)));
        let mut cells: Vec<_> = named.chain(others).filter(|(source, _)| *source != written.source).collect();
        cells.sort_unstable();
        for (source, address) in cells {
            let (first, second) = (source.min(written.source), source.max(written.source));
            let is_it = address == written.storage;
            self.guards.relate(if is_it { Relation::Same(first, second) } else { Relation::Distinct(vec![first, second]) });
        }
    }

    /// Whether a module, or what it holds, may be written to. One of torch's is read by functions of torch's that are not looked into,
    /// `builtins` and `sys` by Python itself.
    pub(crate) fn is_writable_module(&self, module: &Bound<'py, PyAny>) -> bool {
        let name = module.getattr(intern!(self.py, "__name__")).and_then(|name| name.extract::<String>());
        module.is_exact_instance_of::<PyModule>()
            && name.is_ok_and(|name| !["builtins", "sys"].contains(&name.as_str()))
            && instance_dict(module).is_some_and(|dict| !self.effects.kinds.is_of_torch(&dict))
    }
}

/// Whether a name is one by which Python itself finds something.
pub(crate) fn is_dunder(name: &str) -> bool {
    name.starts_with("__") && name.ends_with("__")
}
