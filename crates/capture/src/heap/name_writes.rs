//! Writes to global names and to variables of enclosing functions. They are recorded like writes to attributes, see
//! [`crate::heap::attribute_writes`].
//!
//! The identity of the captured function's globals is guarded, so another call uses the same dict. Its cells are new with each function
//! created from the same code; when one is written, it is guarded to be distinct from the frame's other cells.

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
    floors::{Capture, Writes},
    graph_break::{Outcome, reason},
    heap::attribute_writes::{Overlay, WriteTarget},
    objects::{
        Tracked,
        callable_kinds::is_of,
        lookup::{instance_dict, text},
        special_names::is_dunder,
    },
    state::{Written, WrittenKind},
};

/// The name of a cell's only attribute.
const CONTENTS: &str = "cell_contents";

impl<'py> Writes<'py> {
    /// Returns the source of the captured function's globals, guarded to be this dict.
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

    /// Returns the value that the frame has written to a global name, if any.
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

    /// Records a write to a variable of an enclosing function. `content` is the source of its value.
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
        let place =
            WriteTarget { kind: WrittenKind::Attribute, owner: cell, source, stored: content, storage, name: CONTENTS.to_owned(), now };
        self.note(place, value)
    }

    /// Returns what the frame has written to a variable of an enclosing function.
    pub(crate) fn written_cell(&self, cell: &Bound<'py, PyAny>) -> Overlay<'py> {
        self.written_at(cell.as_ptr() as usize, CONTENTS)
    }

    /// Returns the source of the cell whose content has the given source.
    fn cell_at(&self, content: SourceId) -> Option<SourceId> {
        Some(self.guards.source(match self.guards.get(content) {
            Source::Free { index, .. } => Source::ClosureCell(self.guards.source(Source::Function), index),
            Source::Closure { base, index, .. } => Source::ClosureCell(base, index),
            Source::Cell(cell) => return Some(cell),
            _ => return None,
        }))
    }

    /// Guards which other cells are identical to the written cell, and which are distinct from it.
    pub(super) fn tell_cells_apart(&self, written: &Written) {
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

    /// Returns true if a module, or an object in it, may be written to. Torch's modules are read by torch functions that are not traced
    /// into; `builtins` and `sys` are read by Python itself.
    pub(super) fn is_writable_module(&self, module: &Bound<'py, PyAny>) -> bool {
        let name = module.getattr(intern!(self.py, "__name__")).and_then(|name| name.extract::<String>());
        module.is_exact_instance_of::<PyModule>()
            && name.is_ok_and(|name| !["builtins", "sys"].contains(&name.as_str()))
            && instance_dict(module).is_some_and(|dict| !self.effects.kinds.is_of_torch(&dict))
    }
}

impl<'py> Capture<'py> {
    /// `global name; name = value`, or `del name`.
    pub(crate) fn write_global(&self, frame: &Activation<'py>, name: &Bound<'py, PyString>, value: Option<&Tracked<'py>>) -> Outcome<()> {
        let key = text(name)?;
        let verb = if value.is_some() { "sets" } else { "deletes" };
        let refuse = |why: &str| self.break_graph(reason::SIDE_EFFECT, format!("{verb} the global {key}{why}"));
        let Some(function) = frame.function() else { return refuse(", in code that is run without a function") };
        if self.effects.kinds.is_torch(&function) && !is_of(&function, BREAKS_ARE_ERRORS.0, &["_set_error_on_graph_break"])? {
            // Torch functions that are not traced into may read it.
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
        self.note(WriteTarget { kind: WrittenKind::Global, owner: &globals, source, stored, storage, name: key, now }, value)
    }
}
