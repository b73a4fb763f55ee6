//! Torch's switches for single functions and tensors: `disable`, `allow_in_graph`, `assume_constant_result`, `substitute_in_graph`,
//! `mark_dynamic`, `nested_compile_region`, `error_on_graph_break` and their relatives.
//!
//! Torch keeps them as attributes of the objects and as tables in modules of `torch._dynamo`. That package is looked up, never imported:
//! until other code imports it, its tables are empty. The switches are not guarded, and torch does not guard them either: the decorators
//! create new functions where it matters, and a function's identity is guarded.

use dynamlir_cpython_abi::{function::code, mapping::imported};
use dynamlir_frame::settings::BREAKS_ARE_ERRORS;
use dynamlir_guards::{DYNAMIC_MARKS, Source, SourceId};
use pyo3::{
    intern,
    prelude::*,
    types::{PyCFunction, PyDict, PyFunction, PyString, PyTuple, PyType},
};

use crate::{
    floors::{Numbers, Operations, Reads},
    graph_break::{Outcome, reason},
    heap::attribute_writes::Overlay,
    objects::{
        Tracked, callable_kinds,
        callables::{Keywords, receiver},
        lookup::instance_dict,
        type_name,
    },
    state::dynamic_sizes::Dynamic,
};

/// The effect of a switch on a call.
enum Switch<'py> {
    /// The call is not for graphs: the name of the callable, and the switch.
    Out(String),
    /// It is called without being traced into, and its operations are recorded.
    Whole,
    /// It is called now, and never again.
    Constant,
    /// Another function is traced into.
    Instead(Bound<'py, PyAny>),
    /// It was created by `torch.compile`: the original callable is traced into.
    OfTorch,
    /// It is a module created by `torch.compile` or `dynamlir.compile`: the original module, reached by these attributes, is called.
    Module(&'static [&'static str]),
    /// It applies a Dynamo configuration around a call. These of its variables hold the setting and the function, which is traced into.
    Configured([(u32, &'static str, Bound<'py, PyAny>); 2]),
    /// It has no effect here.
    Nothing,
}

/// Describes what stops a capture at a function regardless of its caller: its name and the switch, with the reason that its user gave.
fn kept_out(function: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let py = function.py();
    let is_set = |name| function.getattr_opt(name)?.map_or(Ok(false), |value| value.is_truthy());
    if is_set(intern!(py, "_torchdynamo_disable"))? {
        return disabled(function, function.getattr_opt(intern!(py, "_torchdynamo_disable_msg"))?).map(Some);
    }
    Ok(is_set(intern!(py, "_dynamo_forbidden"))?.then(|| format!("{}, by torch._dynamo.forbid_in_graph", full_name(function))))
}

/// Describes an object that `torch.compiler.disable` was applied to.
fn disabled(what: &Bound<'_, PyAny>, why: Option<Bound<'_, PyAny>>) -> PyResult<String> {
    let by = format!("{}, by torch.compiler.disable", full_name(what));
    Ok(match why.filter(|why| !why.is_none()) {
        Some(why) => format!("{by}: {}", why.str()?),
        None => by,
    })
}

/// A cell of a function: its index, its name and its content.
type CellOf<'py> = (u32, &'static str, Bound<'py, PyAny>);

/// Returns the cells of a function that `torch._dynamo.patch_dynamo_config`, or `dont_skip_tracing`, has created: the settings and the
/// function that it calls. How Dynamo traces does not matter to this capture.
fn configured<'py>(function: &Bound<'py, PyAny>) -> PyResult<Option<[CellOf<'py>; 2]>> {
    let py = function.py();
    let (Some(code), Some(utils)) = (code(function), imported(py, intern!(py, "torch._dynamo.external_utils"))?) else { return Ok(None) };
    let is_its = code.getattr(intern!(py, "co_name"))?.eq("inner")?
        && code.getattr(intern!(py, "co_filename"))?.eq(utils.getattr(intern!(py, "__file__"))?)?;
    let (true, Some(decorators)) = (is_its, imported(py, intern!(py, "torch._dynamo.decorators"))?) else { return Ok(None) };
    let names = code.getattr(intern!(py, "co_freevars"))?;
    let held = |name: &'static str| -> PyResult<_> {
        let index: usize = names.call_method1(intern!(py, "index"), (name,))?.extract()?;
        let cell = function.getattr(intern!(py, "__closure__"))?.get_item(index)?;
        Ok((index as u32, name, cell.getattr(intern!(py, "cell_contents"))?))
    };
    let parts = [held("self")?, held("func")?];
    let patch = decorators.getattr_opt(intern!(py, "DynamoConfigPatchProxy"))?;
    Ok(patch.is_some_and(|patch| parts[0].2.get_type().is(&patch)).then_some(parts))
}

/// Returns true if an object's address is in one of the tables of `torch._dynamo.trace_rules`.
fn listed(rules: &Bound<'_, PyAny>, table: &Bound<'_, PyString>, object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let ids = rules.getattr_opt(table)?.map(|table| table.getattr(intern!(rules.py(), "function_ids"))).transpose()?;
    ids.filter(|ids| !ids.is_none()).map_or(Ok(false), |ids| ids.contains(object.as_ptr() as usize))
}

/// Returns `module.name`, for messages.
fn full_name(object: &Bound<'_, PyAny>) -> String {
    let text = |name: &str| object.getattr(name).and_then(|value| value.extract::<String>()).ok();
    match (text("__module__"), text("__qualname__")) {
        (Some(module), Some(name)) => format!("{module}.{name}"),
        (None, Some(name)) => name,
        _ => type_name(object),
    }
}

impl<'py> Reads<'py> {
    /// Ends the capture at a frame whose function is kept out of graphs: C code may have called it, or it is the captured one.
    pub(crate) fn refuse_disabled(&self, function: &Bound<'py, PyAny>) -> Outcome<()> {
        match dynamlir_interpreter::suspended(|| kept_out(function))? {
            Some(what) => self.break_graph(reason::DISABLED, what),
            None => Ok(()),
        }
    }

    fn switch(&self, object: &Bound<'py, PyAny>) -> PyResult<Option<Switch<'py>>> {
        let py = self.py;
        let is_function = object.is_exact_instance_of::<PyFunction>();
        if is_function && let Some(own) = self.disabled_by_torch(object)? {
            return Ok(Some(Switch::Instead(own)));
        }
        if is_function || object.get_type().is(py.get_type::<PyType>()) {
            if let Some(what) = kept_out(object)? {
                return Ok(Some(Switch::Out(what)));
            }
            if is_function
                && object.getattr_opt(intern!(py, "_dynamo_marked_constant"))?.is_some_and(|mark| mark.is_truthy().unwrap_or(false))
            {
                return Ok(Some(Switch::Constant));
            }
        }
        if let Some(what) = self.disabled_module(object)? {
            return Ok(Some(Switch::Out(what)));
        }
        if self.progress.leaves_recurrent && self.is_recurrent(object)? {
            let what = full_name(object.get_type().as_any());
            return Ok(Some(Switch::Out(format!("{what}, by torch._dynamo.config.allow_rnn"))));
        }
        if is_function && self.is_compiled_by_torch(object)? {
            return Ok(Some(Switch::OfTorch));
        }
        if is_function && let Some(parts) = configured(object)? {
            return Ok(Some(Switch::Configured(parts)));
        }
        if let Some(path) = self.module_within(object)? {
            return Ok(Some(Switch::Module(path)));
        }
        if is_function && callable_kinds::is_of(object, "torch._higher_order_ops.invoke_subgraph", &["invoke_subgraph_placeholder"])? {
            // A region marked by `torch.compiler.nested_compile_region` is part of the graph: equal layers are recognized by their
            // contents.
            return Ok(Some(Switch::Instead(dynamlir_cpython_abi::import(py, "dynamlir.capture.regions")?.getattr("nested")?)));
        }
        if is_function && callable_kinds::is_of(object, "dynamlir.graph_break_errors", &["error_on_graph_break"])? {
            // The code that it imports is not for graphs.
            let own = self.outside(|| dynamlir_cpython_abi::import(py, "torch._dynamo"))?.getattr(intern!(py, "error_on_graph_break"))?;
            return Ok(Some(Switch::Instead(own)));
        }
        let Some(rules) = imported(py, intern!(py, "torch._dynamo.trace_rules"))? else { return Ok(None) };
        if is_function && callable_kinds::is_of(object, "torch._dynamo.decorators", &["mark_static"])? {
            // Sizes are static.
            return Ok(Some(Switch::Nothing));
        }
        if is_function
            && callable_kinds::is_of(object, "torch._dynamo.decorators", &["graph_break"])?
            && self.location().first().is_some_and(|(file, ..)| self.torch.is_torchs(file))
        {
            // A break requested by torch itself concerns TorchDynamo's way of splitting frames, such as around an optimizer's step.
            return Ok(Some(Switch::Nothing));
        }
        if listed(&rules, intern!(py, "_disallowed_callable_ids"), object)? {
            return Ok(Some(Switch::Out(format!("{}, by torch._dynamo.disallow_in_graph", full_name(object)))));
        }
        // These are in the table of allowed functions as well, but their effects must happen at each call.
        if listed(&rules, intern!(py, "_leaf_function_ids"), object)? {
            return Ok(Some(Switch::Out(format!("{}, by torch._dynamo.leaf_function", full_name(object)))));
        }
        if listed(&rules, intern!(py, "_allowed_callable_ids"), object)? {
            return Ok(Some(Switch::Whole));
        }
        self.substitute(object).map(|found| found.map(Switch::Instead))
    }

    /// Returns true if the frame forbids graph breaks; `None` if it has not set this, so that its caller's setting applies.
    pub(crate) fn forbids_breaks(&self) -> PyResult<Option<bool>> {
        let (module, name) = BREAKS_ARE_ERRORS;
        let module = imported(self.py, &PyString::intern(self.py, module))?;
        match module.and_then(|module| instance_dict(&module)).map(|globals| self.written_at(globals.as_ptr() as usize, name)) {
            Some(Overlay::Set(said)) => said.object.is_truthy().map(Some),
            _ => Ok(None),
        }
    }

    /// Returns the function that torch disables for Dynamo only. One is the creation of an optimizer's state: because Dynamo handles
    /// optimizers in its own way, it disables this in all their classes as soon as it has compiled anything. The other clears an
    /// optimizer's gradients, which torch keeps out of Dynamo's graphs alone.
    fn disabled_by_torch(&self, object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = self.py;
        if let Some(own) = self.torch.wrapped_by_disable(object) {
            let clears = self.effects.kinds.is_torch(&own) && own.getattr(intern!(py, "__qualname__"))?.eq("Optimizer.zero_grad")?;
            return Ok(clears.then_some(own));
        }
        if object.getattr_opt(intern!(py, "_torchdynamo_disable"))?.is_none() {
            return Ok(None);
        }
        let Some(own) = object.getattr_opt(intern!(py, "_torchdynamo_orig_callable"))? else { return Ok(None) };
        let text = |name: &str| own.getattr(name).and_then(|value| value.extract::<String>()).unwrap_or_default();
        let is_one =
            self.effects.kinds.is_torch(&own) && text("__name__") == "_init_group" && text("__module__").starts_with("torch.optim.");
        Ok(is_one.then_some(own))
    }

    /// Returns true if `torch.compile`, or `torch._dynamo.run`, has created this function. A wrapper around one has its attributes, but
    /// different code.
    fn is_compiled_by_torch(&self, function: &Bound<'py, PyAny>) -> PyResult<bool> {
        let py = self.py;
        if function.getattr_opt(intern!(py, "_torchdynamo_orig_callable"))?.is_none() {
            return Ok(false);
        }
        let (Some(code), Some(module)) = (code(function), imported(py, intern!(py, "torch._dynamo.eval_frame"))?) else { return Ok(false) };
        let is_its = code.getattr(intern!(py, "co_filename"))?.eq(module.getattr(intern!(py, "__file__"))?)?;
        Ok(is_its && code.getattr(intern!(py, "co_name"))?.eq("compile_wrapper")?)
    }

    /// Returns true if this is one of torch's recurrent layers.
    fn is_recurrent(&self, object: &Bound<'py, PyAny>) -> PyResult<bool> {
        if !self.torch.is_module(object) {
            return Ok(false);
        }
        let base = dynamlir_cpython_abi::import(self.py, "torch.nn.modules.rnn")?.getattr(intern!(self.py, "RNNBase"))?;
        object.get_type().is_subclass(&base)
    }

    /// Returns the path to the original module of one that `dynamlir.compile` or `torch.compile` has created; `None` for any other.
    fn module_within(&self, object: &Bound<'py, PyAny>) -> PyResult<Option<&'static [&'static str]>> {
        let class = object.get_type();
        if !self.torch.is_module(object) {
            return Ok(None);
        }
        let path: &[&str] = if class.getattr_opt(intern!(self.py, "_dynamlir_made"))?.is_some() {
            &["_dynamlir_made", "module"]
        } else if callable_kinds::is_of(class.as_any(), "torch._dynamo.eval_frame", &["OptimizedModule"])? {
            &["_orig_mod"]
        } else {
            return Ok(None);
        };
        // Another instance of a view's class is not a view.
        let inner =
            dynamlir_cpython_abi::import(self.py, "dynamlir.nested_doors")?.call_method1(intern!(self.py, "innermost"), (object,))?;
        Ok((!inner.is(object)).then_some(path))
    }

    /// Describes a module that `torch.compiler.disable` has wrapped; `None` for any other.
    fn disabled_module(&self, object: &Bound<'py, PyAny>) -> PyResult<Option<String>> {
        let py = self.py;
        if !self.torch.is_module(object)
            || !callable_kinds::is_of(object.get_type().as_any(), "torch._dynamo.eval_frame", &["OptimizedModule"])?
        {
            return Ok(None);
        }
        let Some(context) = object.getattr_opt(intern!(py, "dynamo_ctx"))? else { return Ok(None) };
        if !callable_kinds::is_of(context.get_type().as_any(), "torch._dynamo.eval_frame", &["DisableContext"])? {
            return Ok(None);
        }
        let module = object.getattr(intern!(py, "_orig_mod"))?;
        disabled(module.get_type().as_any(), context.getattr_opt(intern!(py, "msg"))?).map(Some)
    }

    /// Returns the function that the user has registered as a substitute. Torch's own polyfills for Python's functions are meant for
    /// torch.compile and its users; here those functions themselves are used.
    fn substitute(&self, object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = self.py;
        let plain =
            object.is_exact_instance_of::<PyFunction>() || object.is_exact_instance_of::<PyCFunction>() && receiver(object).is_none();
        if !plain {
            return Ok(None);
        }
        let Some(module) = imported(py, intern!(py, "torch._dynamo.variables.functions"))? else { return Ok(None) };
        let Some(class) = module.getattr_opt(intern!(py, "PolyfilledFunctionVariable"))? else { return Ok(None) };
        let handlers = class.call_method0(intern!(py, "_get_polyfill_handlers"))?.cast_into::<PyDict>()?;
        let Some(handler) = handlers.get_item(object)? else { return Ok(None) };
        let function = handler.getattr(intern!(py, "__torch_dynamo_polyfill__"))?;
        Ok((!self.effects.kinds.is_torch(&function) && !function.is(object)).then_some(function))
    }

    /// Calls a function that is one node of the graph. What it reads besides its arguments is not guarded: the user vouches for it.
    fn call_whole(&self, callable: &Tracked<'py>, args: &[Tracked<'py>], kwargs: &Keywords<'py>) -> Outcome<Tracked<'py>> {
        for value in args.iter().chain(kwargs.iter().map(|(_, value)| value)) {
            self.pin_opaque(value)?;
        }
        let result = self.whole_call(&callable.object, args, kwargs)?;
        if self.is_made_of_tensors(&result.object) {
            return Ok(result);
        }
        let kind = type_name(&result.object);
        self.break_graph(
            reason::UNGUARDABLE,
            format!("{}, by torch.compiler.allow_in_graph, returns a {kind}", full_name(&callable.object)),
        )
    }

    /// Calls a function whose result never changes, as the user asserts, for these arguments, which are guarded.
    fn call_constant(&self, callable: &Tracked<'py>, args: &[Tracked<'py>], kwargs: &Keywords<'py>) -> Outcome<Tracked<'py>> {
        let given = |value: &Tracked<'py>| {
            self.pin_opaque(value)?;
            let object = self.readable(value)?;
            if self.torch.is_plain(&object) || self.source_of(&object).is_some() {
                return Ok(object);
            }
            let kind = if self.torch.any_fake(&object) { "tensor".to_owned() } else { type_name(&object) };
            self.break_graph(
                reason::UNGUARDABLE,
                format!("{}, by torch.compiler.assume_constant_result, of a {kind}", full_name(&callable.object)),
            )
        };
        let positional = PyTuple::new(self.py, args.iter().map(&given).collect::<Outcome<Vec<_>>>()?)?;
        let keywords = PyDict::new(self.py);
        for (name, value) in kwargs {
            keywords.set_item(name, given(value)?)?;
        }
        self.progress.opaque.set(true);
        let result = self.outside(|| callable.object.call(positional, Some(&keywords)))?;
        if self.torch.is_plain(&result) || self.source_of(&result).is_some() {
            return self.wrap_untracked(result);
        }
        let kind = type_name(&result);
        self.break_graph(
            reason::UNGUARDABLE,
            format!("{}, by torch.compiler.assume_constant_result, returns a {kind}", full_name(&callable.object)),
        )
    }

    /// Guards an argument for code that is not traced into: an existing object is guarded by identity.
    fn pin_opaque(&self, value: &Tracked<'py>) -> Outcome<()> {
        let object = &value.object;
        if self.torch.is_fake(object) || self.torch.is_primitive(object) {
            return Ok(());
        }
        if !self.torch.is_container(object) {
            return self.source(value).map_or(Ok(()), |source| self.pin(object, source));
        }
        let seen = self.readable(value)?;
        if self.is_transparent(&seen) {
            Ok(())
        } else {
            self.break_graph(reason::UNGUARDABLE, format!("objects in a {}", type_name(object)))
        }
    }

    /// Returns true if a value consists of tensors, numbers and text.
    fn is_transparent(&self, value: &Bound<'py, PyAny>) -> bool {
        if let Ok(dict) = value.cast::<PyDict>() {
            return dict.iter().all(|(key, item)| self.is_transparent(&key) && self.is_transparent(&item));
        }
        let items = || value.try_iter().is_ok_and(|mut items| items.all(|item| item.is_ok_and(|item| self.is_transparent(&item))));
        self.torch.is_fake(value) || self.torch.is_primitive(value) || self.torch.is_container(value) && items()
    }

    /// Returns true if a value is None, a tensor, or a list or tuple of these.
    fn is_made_of_tensors(&self, value: &Bound<'py, PyAny>) -> bool {
        let sequence = value.is_exact_instance_of::<pyo3::types::PyList>() || value.is_instance_of::<PyTuple>();
        let items = || value.try_iter().is_ok_and(|mut items| items.all(|item| item.is_ok_and(|item| self.is_made_of_tensors(&item))));
        value.is_none() || self.torch.is_fake(value) || sequence && items()
    }
}

impl<'py> Numbers<'py> {
    /// Ends the capture at a tensor with sizes that must not be specialised, and guards that it is marked so.
    pub(crate) fn refuse_dynamic(&self, tensor: &Bound<'py, PyAny>, source: SourceId) -> Outcome<()> {
        let takes_marked = !matches!(self.sizes.how, Dynamic::Never | Dynamic::Declared);
        for name in DYNAMIC_MARKS.into_iter().filter(|name| !takes_marked || *name == DYNAMIC_MARKS[2]) {
            if tensor.getattr_opt(name)?.is_some() {
                self.pin_type(tensor, source)?;
                self.guards.present(self.guards.source(Source::Attr(source, name.into())));
                let (shape, by) = (tensor.getattr("shape")?, if name == DYNAMIC_MARKS[0] { "mark_dynamic" } else { "mark_unbacked" });
                return self.break_graph(reason::DYNAMIC_SHAPE, format!("a tensor of shape {:?}, by {by}", shape.extract::<Vec<i64>>()?));
            }
        }
        Ok(())
    }
}

impl<'py> Operations<'py> {
    /// Performs a call as the callable's switches require; `None` if it has none.
    pub(crate) fn switched(&self, callable: &Tracked<'py>, args: &[Tracked<'py>], kwargs: &Keywords<'py>) -> Outcome<Option<Tracked<'py>>> {
        let object = &callable.object;
        let Some(switch) = dynamlir_interpreter::suspended(|| self.switch(object))? else { return Ok(None) };
        if let Switch::Out(what) = switch {
            return self.break_graph(reason::DISABLED, what);
        }
        self.layers.note_unrepeatable();
        if object.is_exact_instance_of::<PyFunction>() {
            self.pin_function(callable)?;
        } else if let Some(source) = self.source(callable) {
            self.pin(object, source)?;
        }
        match switch {
            Switch::Whole => self.call_whole(callable, args, kwargs).map(Some),
            Switch::Constant => self.call_constant(callable, args, kwargs).map(Some),
            Switch::Instead(function) => self.call(&Tracked::new(function), args, kwargs).map(Some),
            Switch::OfTorch => {
                let own = self.load_attr(callable, intern!(self.py, "_torchdynamo_orig_callable"))?;
                self.call(&own, args, kwargs).map(Some)
            }
            Switch::Module(path) => {
                let mut own = callable.clone();
                for name in path {
                    own = self.load_attr(&own, &PyString::intern(self.py, name))?;
                }
                self.call(&own, args, kwargs).map(Some)
            }
            Switch::Configured(parts) => {
                let [setting, own] = parts.map(|(index, name, held)| match self.source(callable) {
                    Some(base) => self.wrap(held, self.guards.source(Source::Closure { base, index, name: name.into() })),
                    None => Ok(Tracked::new(held)),
                });
                let setting = setting?;
                if let Some(source) = self.source(&setting) {
                    self.pin_type(&setting.object, source)?;
                }
                self.call(&own?, args, kwargs).map(Some)
            }
            Switch::Out(_) | Switch::Nothing => Ok(Some(Tracked::new(self.py.None().into_bound(self.py)))),
        }
    }
}
