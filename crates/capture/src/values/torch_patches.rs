//! Guards against patches of torch's own Python code and of the methods of its tensors.
//!
//! A function of `torch.nn.functional` is one node of the graph, and the effect of `+` on a tensor is assumed without inspecting it. Both
//! are correct only until a program puts something else there. So each member of a tensor class is guarded when it is used. For a function
//! that is not traced into, everything it can reach by name is guarded: globals, attributes of modules, defaults, and the same for the
//! torch functions among them.

use std::collections::BTreeSet;

use dynamlir_cpython_abi::kind;
use dynamlir_guards::{Facet, Source, SourceId};
use pyo3::{
    intern,
    prelude::*,
    types::{PyCode, PyDict, PyFunction, PyModule, PyString, PyTuple, PyType},
};
use rustc_hash::FxHashSet;

use crate::{
    floors::{Reads, Sources},
    graph_break::{Outcome, reason},
    objects::{
        Tracked,
        callables::{Keywords, methods_of},
        lookup::lookup,
        type_name,
    },
};

impl<'py> Sources<'py> {
    /// Guards the slot of this name on a tensor's class.
    pub(crate) fn tensor_slot(&self, fake: &Bound<'py, PyAny>, name: &str) -> Outcome<()> {
        self.tensor_member(&self.class_of_tensor(fake)?, name)
    }

    /// Returns the class of the tensor that a fake represents.
    pub(crate) fn class_of_tensor(&self, fake: &Bound<'py, PyAny>) -> Outcome<Bound<'py, PyType>> {
        match self.real_of(fake) {
            Some((real, _)) => Ok(real.get_type()),
            None => self.tensor_class(),
        }
    }

    /// Guards the member of this name on a tensor class. It must be torch's own, because it is called without being traced into.
    pub(crate) fn tensor_member(&self, class: &Bound<'py, PyType>, name: &str) -> Outcome<()> {
        if !self.facts.members.borrow_mut().insert((class.as_ptr() as usize, name.to_owned()), ()) {
            return Ok(());
        }
        let label: String = class.fully_qualified_name()?.extract()?;
        let at = self.guards.type_attr(self.guarded(self.guards.hold(class, &label))?, name);
        let Some(member) = lookup(class, name)? else {
            self.guards.absent(at);
            return Ok(());
        };
        self.guarded(self.guards.identity(at, &member))?;
        if self.is_torch_member(&member)? {
            return Ok(());
        }
        self.break_graph(reason::C_FUNCTION, format!("{label}.{name}, which was patched,"))
    }

    /// Returns true if a member of a tensor class is torch's own: C code, or Python code of torch's modules.
    pub(crate) fn is_torch_member(&self, member: &Bound<'py, PyAny>) -> Outcome<bool> {
        if self.effects.is_of_tensors(member) || self.effects.kinds.is_torch(member) {
            return Ok(true);
        }
        if kind::is_property(member) {
            return Ok(self.effects.kinds.is_torch(&member.getattr("fget")?));
        }
        if kind::is_static_method(member) || kind::is_class_method(member) {
            let inner = member.getattr("__func__")?;
            return Ok(self.effects.kinds.is_torch(&inner) || kind::is_c_function(&inner));
        }
        // Slots that every class inherits from `object`.
        let of_object = kind::is_slot_wrapper(member) || kind::is_method_descriptor(member) || kind::is_getset_descriptor(member);
        Ok(of_object && member.getattr("__objclass__")?.is(self.py.get_type::<PyAny>()))
    }

    /// Guards everything that a torch function can reach. The function itself is guarded by identity and is not traced into.
    pub(crate) fn pin_leaf(&self, function: &Bound<'py, PyAny>) -> Outcome<()> {
        let label: String = function.getattr(intern!(self.py, "__qualname__"))?.extract()?;
        let source = match self.source_of(function) {
            Some(source) => source,
            None => self.guarded(self.guards.hold(function, &label))?,
        };
        self.pin_reach(function, source)
    }

    fn pin_reach(&self, function: &Bound<'py, PyAny>, source: SourceId) -> Outcome<()> {
        if !self.facts.leaves.borrow_mut().insert(function.as_ptr() as usize, ()) {
            return Ok(());
        }
        let py = self.py;
        let code = function.getattr(intern!(py, "__code__"))?;
        self.guarded(self.guards.code(source, &code))?;
        let mut names = BTreeSet::new();
        names_in(&code, &mut names)?;
        // `F.softmax` calls `input.softmax`, `F.normalize` divides.
        let tensors = self.tensor_class()?;
        let operators = dynamlir_interpreter::operators(&code);
        let methods = operators.iter().flat_map(|operator| methods_of(operator)).copied();
        for name in names.iter().map(String::as_str).chain(methods) {
            if lookup(&tensors, name)?.is_some() {
                self.tensor_member(&tensors, name)?;
            }
        }
        // Modules are reached repeatedly; each is searched for these names once.
        let mut modules = FxHashSet::default();
        let globals = function.getattr(intern!(py, "__globals__"))?.cast_into::<PyDict>().map_err(PyErr::from)?;
        for name in &names {
            if let Some(value) = globals.get_item(name)?
                && !value.is(function)
            {
                self.pin_reached(&value, self.guards.source(Source::GlobalOf(source, name.as_str().into())), &names, &mut modules)?;
            }
        }
        if let Ok(cells) = function.getattr(intern!(py, "__closure__"))?.cast_into::<PyTuple>() {
            let variables: Vec<String> = code.getattr(intern!(py, "co_freevars"))?.extract()?;
            for (index, (cell, name)) in cells.iter().zip(variables).enumerate() {
                let Some(value) = cell.getattr_opt(intern!(py, "cell_contents"))? else { continue };
                let at = Source::Closure { base: source, index: index as u32, name: name.as_str().into() };
                self.pin_reached(&value, self.guards.source(at), &names, &mut modules)?;
            }
        }
        Ok(())
    }

    /// Guards an object that torch's code reaches by one of these names.
    fn pin_reached(
        &self,
        value: &Bound<'py, PyAny>,
        at: SourceId,
        names: &BTreeSet<String>,
        modules: &mut FxHashSet<usize>,
    ) -> Outcome<()> {
        if value.is_exact_instance_of::<PyFunction>() {
            self.pin(value, at)?;
            // Only used for subclasses and modes, which end the capture.
            let overrides = dynamlir_cpython_abi::import(self.py, "torch.overrides")?;
            if value.getattr(intern!(self.py, "__globals__"))?.is(overrides.dict()) {
                return Ok(());
            }
            if !self.effects.kinds.is_torch(value) {
                return self.guarded(self.guards.code(at, &value.getattr(intern!(self.py, "__code__"))?));
            }
            for (source, attribute) in [(Source::Defaults(at), "__defaults__"), (Source::KwDefaults(at), "__kwdefaults__")] {
                let held = value.getattr(attribute)?;
                if !held.is_instance_of::<PyDict>() {
                    // A default that is not built from constants is not something a program patches.
                    let source = self.guards.source(source);
                    if !self.guarded(self.guards.equals(source, &held))? {
                        self.guards.demand(source, Facet::Nothing);
                    }
                }
            }
            return self.pin_reach(value, at);
        }
        if value.is_instance_of::<PyModule>() {
            self.pin(value, at)?;
            if !modules.insert(value.as_ptr() as usize) {
                return Ok(());
            }
            let Some(dict) = crate::objects::lookup::instance_dict(value) else { return Ok(()) };
            for name in names {
                if let Some(found) = dict.get_item(name)?
                    && !found.is(value)
                {
                    self.pin_reached(&found, self.guards.attr(at, name), names, modules)?;
                }
            }
            return Ok(());
        }
        // C functions, classes, numbers. Patching anything else in a module is unheard of.
        if self.guards.identity(at, value).is_err() {
            self.guards.demand(at, Facet::Nothing);
        }
        Ok(())
    }

    /// Ends the capture at a tensor attribute that is neither torch's own nor a function that can be traced into.
    pub(crate) fn refuse_patched<T>(&self, class: &Bound<'py, PyType>, name: &str, member: &Bound<'py, PyAny>) -> Outcome<T> {
        self.break_graph(reason::C_FUNCTION, format!("{}.{name}, a {} that was patched in,", class.name()?, type_name(member)))
    }
}

impl<'py> Reads<'py> {
    /// Calls one of torch's Python functions that are tensor methods; the call is a node.
    pub(crate) fn call_method(&self, function: &Bound<'py, PyAny>, args: &[Tracked<'py>], kwargs: &Keywords<'py>) -> Outcome<Tracked<'py>> {
        let name: String = function.getattr("__name__")?.extract()?;
        let class = self.class_of_tensor(&args[0].object)?;
        if lookup(&class, &name)?.is_some_and(|found| found.is(function)) {
            self.tensor_member(&class, &name)?;
            return self.torch_call(&args[0].object.getattr(name.as_str())?, &args[1..], kwargs);
        }
        self.break_graph(reason::C_FUNCTION, format!("Tensor.{name}, which was patched,"))
    }
}

/// Collects all names that a code object, and the code objects nested in it, look up.
fn names_in(code: &Bound<'_, PyAny>, names: &mut BTreeSet<String>) -> PyResult<()> {
    let py = code.py();
    for name in code.getattr(intern!(py, "co_names"))?.cast_into::<PyTuple>()? {
        names.insert(name.cast::<PyString>()?.to_str()?.to_owned());
    }
    for constant in code.getattr(intern!(py, "co_consts"))?.cast_into::<PyTuple>()? {
        if constant.is_instance_of::<PyCode>() {
            names_in(&constant, names)?;
        }
    }
    Ok(())
}
