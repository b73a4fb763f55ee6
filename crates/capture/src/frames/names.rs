//! The sources of a frame's global names, free variables and imports, and the names shown for its values.
//!
//! A function that existed before the frame has its own globals and cells. One that the frame creates (a comprehension, a lambda) shares
//! the globals of the function that creates it, and the cells that it receives.

use std::rc::Rc;

use dynamlir_cpython_abi::{kind, lazy, shown};
use dynamlir_guards::{Guard, Source, SourceId};
use dynamlir_interpreter::{Activation, Instruction, Opcode, Value, semantics};
use pyo3::{
    exceptions::{PyAttributeError, PyException, PyNameError},
    intern,
    prelude::*,
    types::{PyDict, PyFunction, PyString, PyTuple, PyType},
};

use crate::{
    floors::{Capture, Operations},
    graph_break::{Halt, Outcome, reason},
    heap::attribute_writes::Overlay,
    objects::{
        Tracked,
        lookup::{instance_dict, lookup},
        type_name,
    },
};

impl<'py> Capture<'py> {
    /// Loads a global name or a builtin.
    pub(crate) fn load_global(&self, frame: &Activation<'py>, name: &Bound<'py, PyString>) -> Outcome<Tracked<'py>> {
        if let Some(written) = self.written_global(frame, name)? {
            return Ok(written);
        }
        self.refuse_changed(&frame.globals())?;
        self.refuse_changed(&frame.builtins())?;
        self.refuse_answering(&frame.globals())?;
        self.import_now(&frame.globals(), name)?;
        let object = match semantics::load_global(frame, name) {
            Ok(object) => object,
            Err(error) => return self.missing_name(frame, name, error),
        };
        match self.global_source(frame, name)? {
            Some(source) => self.wrap(object, source),
            None => self.wrap_untracked(object),
        }
    }

    /// Ends the capture if code computes the values of globals, `__missing__` for example: its results are neither in the globals nor in
    /// the builtins.
    fn refuse_answering(&self, globals: &Bound<'py, PyAny>) -> Outcome<()> {
        if globals.is_exact_instance_of::<PyDict>() {
            return Ok(());
        }
        let (class, of_dicts) = (globals.get_type(), self.py.get_type::<PyDict>());
        let found = |class, name| lookup(class, name).map(|found| found.map_or(0, |found| found.as_ptr() as usize));
        if found(&class, "__missing__")? == 0 && found(&class, "__getitem__")? == found(&of_dicts, "__getitem__")? {
            return Ok(());
        }
        self.break_graph(reason::UNGUARDABLE, format!("a global name, for which a {} answers", type_name(globals)))
    }

    /// Guards that the imported module is still not loaded, where the graph has broken before an import. Once a later call finds the
    /// module, the frame is captured again.
    pub(crate) fn guard_import(&self, frame: &Activation<'py>, instruction: &Instruction) -> Outcome<()> {
        match instruction.opcode {
            Opcode::ImportName => {
                let flags = if lazy::is_possible(self.py) { 2 } else { 0 };
                let name = frame.name(instruction.arg >> flags);
                let [level, fromlist] = frame.top(2) else { return Ok(()) };
                if let Some(first) = self.not_loaded(frame, &name, fromlist.get(), level.get())?.filter(|first| !first.is_empty()) {
                    self.guards.absent(self.module_source(&first)?);
                }
            }
            Opcode::LoadGlobal if lazy::is_possible(self.py) => {
                let name = frame.name(instruction.arg >> 1);
                let found = semantics::lookup(&frame.globals(), &name)?.filter(lazy::is_placeholder);
                if let Some(found) = found
                    && let Some(source) = self.global_source(frame, &name)?
                {
                    self.guards.add(source, Guard::Type(found.get_type().into_any().unbind()));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the name of the first module whose code an import statement would run because it is not loaded yet. The name is empty if it
    /// cannot be determined; `None` means that all modules are loaded.
    fn not_loaded(
        &self,
        frame: &Activation<'py>,
        name: &Bound<'py, PyString>,
        fromlist: &Bound<'py, PyAny>,
        level: &Bound<'py, PyAny>,
    ) -> PyResult<Option<String>> {
        let modules = dynamlir_cpython_abi::import(self.py, "sys")?.getattr("modules")?;
        let loaded = |name: &str| semantics::lookup(&modules, &PyString::new(self.py, name));
        let mut full = name.to_str()?.to_owned();
        let level: usize = level.extract()?;
        if level > 0 {
            let package = semantics::lookup(&frame.globals(), intern!(self.py, "__package__"))?;
            let Some(Ok(package)) = package.map(|package| package.extract::<String>()) else { return Ok(Some(String::new())) };
            // Each dot beyond the first goes one package further out.
            let base = package.rsplitn(level, '.').last().unwrap_or_default();
            full = if full.is_empty() { base.to_owned() } else { format!("{base}.{full}") };
        }
        let Some(module) = loaded(&full)? else { return Ok(Some(full)) };
        for part in fromlist.try_iter().into_iter().flatten() {
            let part = part?;
            let submodule = format!("{full}.{}", part.str()?);
            let is_there = instance_dict(&module).is_some_and(|names| names.contains(&part).unwrap_or(false));
            if !is_there && loaded(&submodule)?.is_none() {
                return Ok(Some(submodule));
            }
        }
        Ok(None)
    }

    /// Returns the content of a cell in a slot of a frame; `None` if the cell is empty.
    pub(crate) fn load_deref(&self, frame: &Activation<'py>, slot: usize, cell: &Bound<'py, PyAny>) -> Outcome<Option<Tracked<'py>>> {
        match self.written_cell(cell) {
            Overlay::Set(value) => return Ok(Some(value)),
            Overlay::Deleted => return Ok(None),
            Overlay::Untouched => {}
        }
        let object = semantics::cell_get(cell)?;
        let source = self.cell_source(frame, slot, cell)?;
        let Some(object) = object else {
            // The cell may be filled later.
            if let Some(source) = source {
                self.guards.absent(source);
            }
            return Ok(None);
        };
        match source {
            Some(source) => self.wrap(object, source).map(Some),
            None => self.wrap_untracked(object).map(Some),
        }
    }

    /// Returns the source of a frame's global; `None` for code that runs without a function.
    pub(crate) fn global_source(&self, frame: &Activation<'py>, name: &Bound<'py, PyString>) -> Outcome<Option<SourceId>> {
        let key: Rc<str> = name.to_str()?.into();
        let is_global = frame.globals().contains(name)?;
        if frame.place().outer().is_some() && frame.function().is_none() {
            return Ok(None);
        }
        let of_c = |function: &Bound<'py, PyAny>| self.source_of(function).is_none() && !self.is_made(function);
        if is_global && frame.function().is_some_and(|function| of_c(&function)) && self.is_young(&frame.globals()) {
            // `eval` created the function in the frame: it no longer exists when the guards are checked.
            return Ok(None);
        }
        let Some(owner) = self.globals_owner(frame)? else {
            self.existing.globals.get_or_init(|| frame.globals().unbind());
            return Ok(Some(if is_global { self.guards.global(&key) } else { self.guards.builtin(&key) }));
        };
        let global = self.guards.source(Source::GlobalOf(owner, (&*key).into()));
        if is_global {
            return Ok(Some(global));
        }
        self.guards.absent(global);
        Ok(Some(self.guards.source(Source::BuiltinOf(owner, (&*key).into()))))
    }

    /// Raises the error for a name that is not defined anywhere, and guards that it stays undefined.
    fn missing_name<T>(&self, frame: &Activation<'py>, name: &Bound<'py, PyString>, error: PyErr) -> Outcome<T> {
        if error.is_instance_of::<PyNameError>(self.py) {
            match self.global_source(frame, name)? {
                Some(source) => self.guards.absent(source),
                None => return self.break_graph(reason::UNGUARDABLE, format!("{name}, which is not defined")),
            }
        }
        Err(Halt::Raise(error))
    }

    /// Returns the source of the existing function that a frame's globals are reached through; `None` for the captured function.
    pub(crate) fn globals_owner(&self, frame: &Activation<'py>) -> Outcome<Option<SourceId>> {
        let Some(function) = frame.function().filter(|_| frame.place().outer().is_some()) else { return Ok(None) };
        if let Some(source) = self.source_of(&function) {
            return Ok(Some(source));
        }
        if self.is_made(&function) {
            return Ok(self.made_beneath(&function));
        }
        self.held(&function).map(Some)
    }

    /// Returns the source of a function that C code has called. The function is kept alive so that guards can inspect it.
    fn held(&self, function: &Bound<'py, PyAny>) -> Outcome<SourceId> {
        let label: String = function.getattr("__qualname__")?.extract()?;
        self.guarded(self.guards.hold(function, &label))
    }

    /// Returns the source of a cell in a slot of a frame; `None` for cells that the capture created.
    pub(crate) fn cell_source(&self, frame: &Activation<'py>, slot: usize, cell: &Bound<'py, PyAny>) -> Outcome<Option<SourceId>> {
        let first_free = frame.prepared().first_free();
        if slot < first_free {
            // The frame's own cell, or one that it already had at the graph break.
            return Ok(self.handed_cell(cell));
        }
        let source = match self.handed_cell(cell) {
            Some(source) => Some(source),
            None => self.free_source(frame, slot - first_free)?,
        };
        if let Some(source) = source.filter(|source| !self.existing.cells.borrow().contains(source)) {
            self.existing.cells.borrow_mut().insert(source, cell.as_ptr() as usize);
        }
        Ok(source)
    }

    /// Records the sources of the cells that a frame passes to a function it creates from `code`.
    pub(crate) fn note_cells(&self, frame: &Activation<'py>, code: &Bound<'py, PyAny>) -> Outcome<()> {
        let Some(function) = frame.function() else { return Ok(()) };
        let Ok(own) = function.getattr("__closure__")?.cast_into::<PyTuple>() else { return Ok(()) };
        let wanted = code.getattr("co_freevars")?;
        for (index, name) in frame.code().getattr("co_freevars")?.try_iter()?.enumerate() {
            if !wanted.contains(name?)? {
                continue;
            }
            let cell = own.get_item(index)?;
            if self.handed_cell(&cell).is_none()
                && let Some(source) = self.free_source(frame, index)?
            {
                self.hand_cell(cell, source);
            }
        }
        Ok(())
    }

    /// Guards the class after which `super()` in a frame continues the lookup: C code reads it from the frame.
    pub(crate) fn pin_class_cell(&self, frame: &Activation<'py>) -> Outcome<()> {
        let Some(function) = frame.function() else { return Ok(()) };
        let Ok(own) = function.getattr(intern!(self.py, "__closure__"))?.cast_into::<PyTuple>() else { return Ok(()) };
        let names = frame.code().getattr(intern!(self.py, "co_freevars"))?.cast_into::<PyTuple>().map_err(PyErr::from)?;
        for (index, name) in names.iter().enumerate() {
            if name.eq("__class__")?
                && let Some(class) = semantics::cell_get(&own.get_item(index)?)?
                && let Some(source) = self.free_source(frame, index)?
            {
                self.wrap(class.clone(), source)?;
                self.pin(&class, source)?;
            }
        }
        Ok(())
    }

    fn free_source(&self, frame: &Activation<'py>, index: usize) -> Outcome<Option<SourceId>> {
        let Some(function) = frame.function() else { return Ok(None) };
        let name: String = frame.code().getattr("co_freevars")?.get_item(index)?.extract()?;
        if frame.place().outer().is_none() {
            return Ok(Some(self.guards.free(index, &name)));
        }
        let base = match self.source_of(&function) {
            Some(source) => source,
            None if self.is_made(&function) => return Ok(None),
            None => self.held(&function)?,
        };
        Ok(Some(self.guards.source(Source::Closure { base, index: index as u32, name: name.as_str().into() })))
    }

    /// Handles `import name` and `from name import fromlist`: returns the entry of `sys.modules` under the name.
    pub(crate) fn import_name(
        &self,
        frame: &Activation<'py>,
        name: &Bound<'py, PyString>,
        fromlist: &Bound<'py, PyAny>,
        level: &Bound<'py, PyAny>,
    ) -> Outcome<Tracked<'py>> {
        let key = intern!(self.py, "__import__");
        let found = frame.builtins().get_item(key)?;
        if !kind::is_c_function(&found) {
            return self.break_graph(reason::C_FUNCTION, "an __import__ that was patched");
        }
        let own = match self.globals_owner(frame)? {
            Some(owner) => Source::BuiltinOf(owner, "__import__".into()),
            None => Source::Builtin("__import__".into()),
        };
        self.guarded(self.guards.identity(self.guards.source(own), &found))?;
        self.refuse_changed(&frame.builtins())?;
        self.refuse_changed(&dynamlir_cpython_abi::import(self.py, "sys")?.getattr("modules")?)?;
        if self.not_loaded(frame, name, fromlist, level)?.is_some() && self.has_written()? {
            return self.break_before(name);
        }
        let module = self.importing(name, || semantics::import_name(frame, name, fromlist, level))?;
        let mut full = name.to_str()?.to_owned();
        if level.extract::<usize>()? > 0 {
            // Relative to the package in the globals, which is assumed not to change.
            full = match module.getattr_opt(intern!(self.py, "__name__"))? {
                Some(name) => name.extract()?,
                None => return self.break_graph(reason::UNGUARDABLE, "a relative import of a module without a name"),
            };
        }
        let mut source = self.module_source(&full)?;
        if !fromlist.is_truthy()? && full.contains('.') {
            // The full name is looked up, and the first part is returned.
            self.guards.present(source);
            source = self.module_source(full.split('.').next().unwrap_or_default())?;
        }
        self.imported(module, source)
    }

    /// Handles `from module import name`.
    pub(crate) fn import_from(&self, module: &Tracked<'py>, name: &Bound<'py, PyString>) -> Outcome<Tracked<'py>> {
        match self.load_attr(module, name) {
            Err(Halt::Raise(error)) if error.is_instance_of::<PyAttributeError>(self.py) => {
                let found = self.asking_a_module(|| semantics::import_from(&module.object, name));
                let package: String = module.object.getattr(intern!(self.py, "__name__"))?.extract()?;
                let source = self.module_source(&format!("{package}.{name}"))?;
                match found {
                    Ok(found) => self.imported(found, source),
                    Err(error) => {
                        self.guards.absent(source);
                        Err(Halt::Raise(error))
                    }
                }
            }
            other => other,
        }
    }

    /// Returns the source of a module, by its name.
    fn module_source(&self, name: &str) -> Outcome<SourceId> {
        let sys = self.guarded(self.guards.hold(dynamlir_cpython_abi::import(self.py, "sys")?.as_any(), "sys"))?;
        let key = PyString::new(self.py, name);
        let modules = self.guards.attr(sys, "modules");
        self.guards.add(modules, Guard::Type(self.py.get_type::<PyDict>().into_any().unbind()));
        self.guarded(self.guards.item(modules, key.as_any()))
    }

    /// Returns an imported module, guarded to be the object at its source.
    fn imported(&self, module: Bound<'py, PyAny>, source: SourceId) -> Outcome<Tracked<'py>> {
        let module = self.wrap(module, source)?;
        if module.source.is_some() {
            self.pin(&module.object, source)?;
        }
        Ok(module)
    }

    /// Formats a value for a step trace: `TensorVar(add_0)`, `ConstVar(2)`.
    pub(crate) fn describe_value(&self, value: &Value<'py>) -> String {
        let Some(object) = &value.object else { return "NULL".to_owned() };
        if let Some(node) = self.node(object) {
            return format!("TensorVar({})", self.graph.borrow().name(node));
        }
        // The class of another callable may have a `__getattr__`, which is not called for this.
        let is_method = kind::is_method(object) || kind::is_c_function(object);
        if is_method
            && let Ok(receiver) = object.getattr("__self__")
            && let Some(node) = self.node(&receiver)
        {
            let name: String = object.getattr("__name__").and_then(|name| name.extract()).unwrap_or_default();
            return format!("MethodVar({}, \"{name}\")", self.graph.borrow().name(node));
        }
        if self.torch.is_primitive(object) {
            return format!("ConstVar({})", shown::repr(object).map_or_else(|_| "?".to_owned(), |text| text.to_string()));
        }
        if object.is_instance_of::<PyFunction>() || object.is_callable() {
            let named = object.is_instance_of::<PyFunction>() || object.is_instance_of::<PyType>() || is_method;
            let name = if named { object.getattr("__name__").and_then(|name| name.extract()).ok() } else { None };
            let name: String = name.unwrap_or_else(|| crate::objects::type_name(object));
            return format!("Callable({name})");
        }
        format!("Var({})", crate::objects::type_name(object))
    }
}

impl<'py> Operations<'py> {
    /// Performs the deferred import that a name in a namespace represents (CPython 3.15), as loading the name would. The namespace then
    /// holds the imported object, which is what guards see.
    pub(crate) fn import_now(&self, namespace: &Bound<'py, PyAny>, name: &Bound<'py, PyString>) -> Outcome<()> {
        let found = if lazy::is_possible(self.py) { semantics::lookup(namespace, name)? } else { None };
        let Some(found) = found.filter(lazy::is_placeholder) else { return Ok(()) };
        if self.has_written()? {
            return self.break_before(name);
        }
        self.importing(name, || lazy::resolved(found, name, namespace)).map(drop)
    }

    /// Returns true if the frame has written to objects that existed before it: such writes must not be visible until the graph has run.
    fn has_written(&self) -> PyResult<bool> {
        if !self.writes.is_empty() {
            return Ok(true);
        }
        let inputs = self.tensors.inputs.borrow();
        dynamlir_interpreter::suspended(|| {
            for input in inputs.iter().filter(|input| !input.number) {
                // The version of a fake starts at 0. A fake without a version may have been written to.
                let version = input.fake.bind(self.py).getattr(intern!(self.py, "_version")).and_then(|version| version.extract::<i64>());
                if version.map_or(true, |version| version > 0) {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }

    /// Breaks the graph before the first import of a module, whose code would not see the frame's pending writes.
    fn break_before<T>(&self, name: &Bound<'py, PyString>) -> Outcome<T> {
        self.break_graph(reason::SIDE_EFFECT, format!("the first import of {name} after something was written"))
    }

    /// Runs an import. The code of a module that is imported for the first time is not captured: it creates real tensors, and the module
    /// stays imported even if the capture ends. If the import fails, the graph breaks and each call tries again, because no guard can tell
    /// if it would succeed then.
    fn importing<T>(&self, name: &Bound<'py, PyString>, import: impl FnOnce() -> PyResult<T>) -> Outcome<T> {
        match self.outside(import) {
            Err(error) if error.is_instance_of::<PyException>(self.py) => {
                self.break_graph(reason::UNGUARDABLE, format!("an import that fails: {name}"))
            }
            result => Ok(result?),
        }
    }
}

/// Returns the names of a frame's parameters, by slot.
pub(crate) fn parameter_names(frame: &Activation<'_>) -> PyResult<Vec<String>> {
    let code = frame.code();
    let number = |name: &str| code.getattr(name)?.extract::<usize>();
    let flags = number("co_flags")?;
    // CO_VARARGS and CO_VARKEYWORDS.
    let extra = usize::from(flags & 0x4 != 0) + usize::from(flags & 0x8 != 0);
    let count = number("co_argcount")? + number("co_kwonlyargcount")? + extra;
    let names = code.getattr("co_varnames")?;
    (0..count).map(|at| names.get_item(at)?.extract()).collect()
}
