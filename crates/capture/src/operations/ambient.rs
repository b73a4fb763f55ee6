//! Answers of C functions that depend on more than their arguments: settings of the process and the thread, the exception that a caller
//! handles, addresses of objects.

use dynamlir_guards::{Constant, Source, SourceId};
use pyo3::{
    prelude::*,
    types::{PyList, PyTuple},
};

use crate::{
    floors::Reads,
    graph_break::{Outcome, reason},
    objects::{Tracked, callables::Keywords, lookup::lookup, special_names, type_name},
};

/// Functions of torch that choose their kernel by the user's settings.
const CHOOSES: [&str; 3] = ["scaled_dot_product_attention", "_native_multi_head_attention", "_transformer_encoder_layer_fwd"];

impl<'py> Reads<'py> {
    /// Calls a C function that reads a setting. Each guard check calls it again and compares the result.
    pub(crate) fn ask_again(&self, function: &Bound<'py, PyAny>, args: &[Tracked<'py>], kwargs: &Keywords<'py>) -> Outcome<Tracked<'py>> {
        for arg in args {
            self.guard_value(arg)?;
        }
        let given = PyTuple::new(self.py, args.iter().map(|arg| &arg.object))?;
        let name: String = function.getattr("__name__")?.extract()?;
        let Some(arguments) = Constant::new(given.as_any())?.filter(|_| kwargs.is_empty()) else {
            return self.break_graph(reason::UNGUARDABLE, format!("{name} of such arguments"));
        };
        // The guard passes exactly these argument values.
        self.guard_inside([given.as_any()], &[])?;
        let answer = self.outside(|| function.call1(&given))?;
        // The guard runs before the frame. For a setting that the frame has changed it therefore compares the value from before the change.
        let before = self.recorder().answered_before(function, &given)?;
        let guarded = if before.is_empty() { answer.clone() } else { before.get_item(0)? };
        let module: String = function.getattr("__module__").and_then(|module| module.extract()).unwrap_or_default();
        let label = if module.is_empty() { name.clone() } else { format!("{module}.{name}") };
        let held = self.guarded(self.guards.hold(function, &label))?;
        let source = self.guards.source(Source::Answer(held, arguments));
        if !self.guards_answer(source, &guarded)? {
            return self.break_graph(reason::UNGUARDABLE, format!("the {} that {name} answers", type_name(&answer)));
        }
        // A list that the function created enters the frame as a copy, since the frame may change it.
        Ok(Tracked::new(match answer.cast_exact::<PyList>() {
            Ok(list) => PyList::new(self.py, list)?.into_any(),
            Err(_) => answer,
        }))
    }

    /// Guards that a setting has this value, which may be a list of values. Returns false if the value cannot be guarded.
    fn guards_answer(&self, source: SourceId, value: &Bound<'py, PyAny>) -> Outcome<bool> {
        let Ok(list) = value.cast_exact::<PyList>() else { return self.guarded(self.guards.equals(source, value)) };
        self.pin_type(value, source)?;
        self.guards.length(source, list.len());
        for (at, item) in list.iter().enumerate() {
            if !self.guarded(self.guards.equals(self.guards.source(Source::Index(source, at as u32)), &item))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Guards the default device of the thread. It is a function mode around the call, and other function modes are not supported, so this
    /// also guards that its position is not taken by one of those.
    pub(crate) fn guard_default_device(&self) -> Outcome<()> {
        let modes = self.torch.function_modes(self.py)?;
        if modes == 0 {
            return Ok(());
        }
        let get = dynamlir_cpython_abi::import(self.py, "torch._C")?.getattr("_get_function_stack_at")?;
        for at in 0..modes {
            let mode = get.call1((at,))?;
            let held = self.guarded(self.guards.hold(&get, "torch._C._get_function_stack_at"))?;
            let arguments = Constant::new(PyTuple::new(self.py, [at])?.as_any())?;
            let Some(arguments) = arguments.filter(|_| self.torch.is_default_device(&mode)) else {
                return self.break_graph(reason::FUNCTION_MODE, type_name(&mode));
            };
            let source = self.guards.source(Source::Answer(held, arguments));
            self.wrap(mode.clone(), source)?;
            self.pin_type(&mode, source)?;
            let device = self.guards.source(Source::GetAttr(source, "device".into()));
            if !self.guarded(self.guards.equals(device, &mode.getattr("device")?))? {
                return self.break_graph(reason::FUNCTION_MODE, type_name(&mode));
            }
        }
        Ok(())
    }

    /// Guards the settings around the call that decide which kernel torch chooses for an operator: another kernel rounds numbers
    /// differently.
    pub(crate) fn guard_choices(&self, operator: &str) -> Outcome<()> {
        if !CHOOSES.contains(&operator) {
            return Ok(());
        }
        // The settings from before the frame are the same for each call within it, so one guard is enough.
        if !self.facts.note_choices(operator) {
            return Ok(());
        }
        for setting in dynamlir_cpython_abi::import(self.py, "dynamlir.kernel_settings")?.call_method0("deciding")?.try_iter()? {
            self.ask_again(&setting?, &[], &Vec::new())?;
        }
        Ok(())
    }

    /// Guards that no caller of the function is handling an exception. Ends the capture if one is.
    pub(crate) fn nothing_handled(&self) -> Outcome<()> {
        let handled = self.facts.handled;
        self.guards.handled(handled);
        if handled {
            return self.break_graph(reason::UNGUARDABLE, "the exception that a caller handles");
        }
        Ok(())
    }

    /// `sys.exc_info()`, `sys.exception()`.
    pub(crate) fn handled_exception(&self, function: &Bound<'py, PyAny>) -> Outcome<Tracked<'py>> {
        self.nothing_handled()?;
        self.returned(function.call0())
    }

    /// `id(value)` and `hash(value)`.
    pub(crate) fn address_of(&self, function: &Bound<'py, PyAny>, value: &Tracked<'py>, id: bool) -> Outcome<Tracked<'py>> {
        let object = &value.object;
        self.refuse_numbers("id() or hash() of", [object])?;
        if self.torch.is_fake(object) {
            if !id {
                self.tensor_member(&self.tensor_class()?, "__hash__")?;
            }
            let Some((real, source)) = self.real_of(object) else {
                return self.break_graph(reason::TENSOR_ESCAPE, "the address of a tensor that the function makes");
            };
            self.pin(&real, source)?;
            return Ok(Tracked::new(dynamlir_interpreter::suspended(|| function.call1((real,)))?));
        }
        if !id {
            self.guard_value(value)?;
            self.addressed([object])?;
            self.guard_inside([object], special_names::HASH)?;
            return self.returned(function.call1((self.readable(value)?,)));
        }
        match self.source(value) {
            // Equal numbers may be one object or two.
            Some(_) if self.torch.is_primitive(object) && !object.is_none() => {
                self.break_graph(reason::UNGUARDABLE, format!("the address of a {}", type_name(object)))
            }
            // `copy` uses addresses only to tell objects apart.
            Some(source) if self.copies() => {
                self.existing.note_compared(source);
                Ok(Tracked::new(function.call1((object,))?))
            }
            Some(source) => {
                self.guard_value(value)?;
                self.pin(object, source)?;
                Ok(Tracked::new(function.call1((object,))?))
            }
            None if object.is_none() || self.copies() => Ok(Tracked::new(function.call1((object,))?)),
            None => self.break_graph(reason::UNGUARDABLE, format!("the address of a {} that the function makes", type_name(object))),
        }
    }

    /// Returns true if the caller is the `copy` module, which uses an address only to tell one object from another.
    fn copies(&self) -> bool {
        let code = || -> PyResult<bool> {
            let Some(place) = dynamlir_interpreter::here() else { return Ok(false) };
            let copy = dynamlir_cpython_abi::import(self.py, "copy")?;
            for name in ["deepcopy", "_deepcopy_tuple", "_deepcopy_list", "_deepcopy_dict", "_keep_alive", "_reconstruct"] {
                if copy.getattr(name)?.getattr("__code__")?.is(place.code(self.py)) {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        code().unwrap_or(false)
    }
}

/// Returns true if `name` is `__context__` and the exception's class uses the interpreter's own descriptor for it.
pub(crate) fn is_context(object: &Bound<'_, PyAny>, name: &str) -> bool {
    let own = || lookup(&object.get_type(), name).ok().flatten();
    name == "__context__"
        && object.is_instance_of::<pyo3::exceptions::PyBaseException>()
        && own().is_some_and(|own| dynamlir_cpython_abi::kind::is_getset_descriptor(&own))
}
