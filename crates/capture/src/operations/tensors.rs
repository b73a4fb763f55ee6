//! Operations on tensors: run once on fakes, recorded as nodes of the graph.

use dynamlir_cpython_abi::shown;
use dynamlir_graph::{Argument, Line, NodeId, Target};
use dynamlir_guards::{Constant, Source, SourceId};
use dynamlir_symint::as_program;
use pyo3::{
    exceptions::{PyAttributeError, PyTypeError},
    prelude::*,
    types::{PyDict, PyFunction, PyList, PyString, PyTuple, PyType},
};

use crate::{
    floors::{Heap, Operations, Reads, Recipes, Sources},
    graph_break::{Outcome, reason},
    objects::{
        Tracked,
        lookup::{ClassAttr, classify, instance_dict, lookup, text},
    },
    recorder::RunAs,
};

/// Attributes and methods that expose what a fake lacks: memory, contents, identity, autograd.
const ESCAPES: &[&str] = &[
    "__array__",
    "__array_interface__",
    "__cuda_array_interface__",
    "__deepcopy__",
    "__dlpack__",
    "__dlpack_device__",
    "__reduce__",
    "__reduce_ex__",
    "__setstate__",
    "_base",
    "_cdata",
    "_is_view",
    "_lazy_clone",
    "_typed_storage",
    "_version",
    "_grad",
    "backward",
    "cpu",
    "cuda",
    "data_ptr",
    "grad",
    "grad_fn",
    "is_inference",
    "is_shared",
    "numpy",
    "pin_memory",
    "register_hook",
    "register_post_accumulate_grad_hook",
    "requires_grad_",
    "retain_grad",
    "share_memory_",
    "storage",
    "untyped_storage",
    "_backward_hooks",
];

/// Methods whose result is a Python value that depends on contents.
const CONTENTS: &[&str] =
    &["item", "tolist", "__bool__", "__int__", "__float__", "__index__", "__complex__", "__contains__", "equal", "allclose"];

/// The methods in [`CONTENTS`] that return the contents of one tensor as Python values.
const READ: &[&str] = &["item", "tolist", "__bool__", "__int__", "__float__", "__index__", "__complex__"];

/// Functions and methods whose results follow from the metadata that guards compare.
const QUESTIONS: &[&str] = &[
    "__len__",
    "_none_or_dtype",
    "can_cast",
    "dense_dim",
    "dim",
    "dim_order",
    "element_size",
    "get_device",
    "has_names",
    "is_coalesced",
    "is_complex",
    "is_conj",
    "is_contiguous",
    "is_distributed",
    "is_floating_point",
    "is_neg",
    "is_non_overlapping_and_dense",
    "is_same_size",
    "is_signed",
    "is_strides_like_format",
    "ndimension",
    "nelement",
    "numel",
    "promote_types",
    "result_type",
    "size",
    "sparse_dim",
    "stride",
    "sym_numel",
    "sym_size",
    "sym_stride",
    "type",
    "_debug_has_internal_overlap",
    "_nested_tensor_size",
    "_use_cudnn_ctc_loss",
];

/// The names of operator functions on tensors in the torch-level graph.
const TORCH_NAMES: &[(&str, &str)] = &[
    ("abs", "torch.abs"),
    ("add", "torch.add"),
    ("sub", "torch.sub"),
    ("mul", "torch.mul"),
    ("truediv", "torch.true_divide"),
    ("floordiv", "torch.floor_divide"),
    ("mod", "torch.remainder"),
    ("pow", "torch.pow"),
    ("matmul", "torch.matmul"),
    ("neg", "torch.neg"),
    ("lt", "torch.lt"),
    ("le", "torch.le"),
    ("gt", "torch.gt"),
    ("ge", "torch.ge"),
    ("eq", "torch.eq"),
    ("ne", "torch.ne"),
];

/// The kind of call that a node represents.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Function,
    /// The first argument is the receiver.
    Method,
    /// A function that is not traced into: always a node, because it may write.
    Whole,
    /// Sets thread state: always a node, because a graph that runs elsewhere must set it, too.
    State,
}

impl<'py> Reads<'py> {
    /// Calls a Python operator (`add`, `getitem`, …) with a tensor among its operands.
    pub fn operator(&self, name: &str, args: &[Tracked<'py>]) -> Outcome<Tracked<'py>> {
        self.pin_operator(name, args)?;
        let function = dynamlir_cpython_abi::import(self.py, "operator")?.getattr(name)?;
        let qualified = TORCH_NAMES
            .iter()
            .find(|(known, _)| *known == name)
            .map_or_else(|| format!("operator.{name}"), |(_, torch)| (*torch).to_owned());
        let base = name.trim_end_matches('_');
        self.node_call(&function, Target::new(base, &qualified, function.clone().unbind()), args, &[], Form::Function)
    }

    /// Calls one of our functions on fakes, as a node that is shown as another call.
    pub(crate) fn call_shown_as(
        &self,
        callable: &Bound<'py, PyAny>,
        target: Target<Py<PyAny>>,
        args: &[Tracked<'py>],
    ) -> Outcome<Tracked<'py>> {
        self.node_call(callable, target, args, &[], Form::Function)
    }

    /// Calls a torch function, tensor method or operator overload.
    pub fn torch_call(
        &self,
        callable: &Bound<'py, PyAny>,
        args: &[Tracked<'py>],
        kwargs: &[(String, Tracked<'py>)],
    ) -> Outcome<Tracked<'py>> {
        // Torch's namespaces implement attribute access in Python.
        let (name, receiver, method) = dynamlir_interpreter::suspended(|| {
            let name = callable.getattr("__name__").and_then(|name| name.extract::<String>());
            (name.unwrap_or_else(|_| "op".to_owned()), callable.getattr("__self__"), self.effects.is_of_tensors(callable))
        });
        if name == "__instancecheck__"
            && let Some(value) = args.last()
            && !self.torch.is_fake(&value.object)
        {
            // For an object other than a tensor, the answer of a torch class follows from the object's type, regardless of its contents.
            if let Some(source) = self.source(value) {
                self.pin_type(&value.object, source)?;
            }
            let given = PyTuple::new(self.py, args.iter().map(|arg| &arg.object))?;
            return self.returned(callable.call1(given));
        }
        if let Ok(receiver) = receiver
            && self.torch.is_fake(&receiver)
        {
            let mut all = vec![Tracked::new(receiver)];
            all.extend_from_slice(args);
            return self.method_call(&name, &all, kwargs);
        }
        if method && args.first().is_some_and(|first| self.torch.is_fake(&first.object)) {
            return self.method_call(&name, args, kwargs);
        }
        self.named_call(callable, &name, args, kwargs, Form::Function)
    }

    /// Calls a function that sets thread state.
    pub fn state_call(
        &self,
        callable: &Bound<'py, PyAny>,
        args: &[Tracked<'py>],
        kwargs: &[(String, Tracked<'py>)],
    ) -> Outcome<Tracked<'py>> {
        let name: String = callable.getattr("__name__")?.extract()?;
        let result = self.named_call(callable, &name, args, kwargs, Form::State);
        self.progress.chooses.set(self.recorder().chooses_otherwise()?);
        result
    }

    /// Calls a function as one node, without tracing into it.
    pub(crate) fn whole_call(
        &self,
        callable: &Bound<'py, PyAny>,
        args: &[Tracked<'py>],
        kwargs: &[(String, Tracked<'py>)],
    ) -> Outcome<Tracked<'py>> {
        let name: String = callable.getattr("__name__").and_then(|name| name.extract()).unwrap_or_else(|_| "call".to_owned());
        self.named_call(callable, &name, args, kwargs, Form::Whole)
    }

    fn named_call(
        &self,
        callable: &Bound<'py, PyAny>,
        name: &str,
        args: &[Tracked<'py>],
        kwargs: &[(String, Tracked<'py>)],
        form: Form,
    ) -> Outcome<Tracked<'py>> {
        let qualified = dynamlir_interpreter::suspended(|| qualified_name(callable, name));
        // An overload is called `add_.Tensor`.
        let base = name.split('.').next().unwrap_or(name);
        self.node_call(callable, Target::new(base, &qualified, callable.clone().unbind()), args, kwargs, form)
    }

    /// Calls a tensor method without keyword arguments.
    pub fn method(&self, name: &str, args: &[Tracked<'py>]) -> Outcome<Tracked<'py>> {
        self.method_call(name, args, &[])
    }

    fn method_call(&self, name: &str, args: &[Tracked<'py>], kwargs: &[(String, Tracked<'py>)]) -> Outcome<Tracked<'py>> {
        if self.torch.is_number(&args[0].object) {
            return self.needs_value(&args[0].object, "a method of");
        }
        if READ.contains(&name)
            && args.len() == 1
            && kwargs.is_empty()
            && let Some(known) = self.known_contents(&args[0].object, name)?
        {
            return Ok(known);
        }
        let reads = matches!(name, "item" | "__float__" | "__int__") && args.len() == 1 && self.may_be_read(&args[0].object, name)?;
        if CONTENTS.contains(&name) && !reads {
            return self.break_graph(reason::DATA_DEPENDENT, format!("Tensor.{name}"));
        }
        if name == "requires_grad_"
            && let Some(result) = self.requires_grad_in_place(args, &kwargs.to_vec())?
        {
            return Ok(result);
        }
        if ESCAPES.contains(&name) && name != "cpu" {
            return self.break_graph(reason::TENSOR_ESCAPE, format!("Tensor.{name}"));
        }
        // Python's method returns exactly a float, or an int.
        let name = if matches!(name, "__float__" | "__int__") { "item" } else { name };
        let method = args[0].object.getattr(name)?;
        let target = Target { base: name.to_owned(), qualified: name.to_owned(), object: None };
        self.node_call(&method, target, args, kwargs, Form::Method)
    }

    /// Runs `callable` on fakes and records the node. For a method the first argument is the receiver it is bound to.
    fn node_call(
        &self,
        callable: &Bound<'py, PyAny>,
        target: Target<Py<PyAny>>,
        args: &[Tracked<'py>],
        kwargs: &[(String, Tracked<'py>)],
        form: Form,
    ) -> Outcome<Tracked<'py>> {
        let py = self.py;
        if matches!(form, Form::Whole | Form::State) {
            self.refuse_numbers(
                "code that is not looked into is given",
                args.iter().chain(kwargs.iter().map(|(_, value)| value)).map(|value| &value.object),
            )?;
            self.refuse_sizes(
                "code that is not looked into is given",
                args.iter().chain(kwargs.iter().map(|(_, value)| value)).map(|value| &value.object),
            )?;
        }
        if form != Form::Whole {
            // A function that the user has marked as one node is user code anyway.
            let operation = if form == Form::Method { format!("Tensor.{}", target.base) } else { target.qualified.clone() };
            self.refuse_called(&target.base, &operation, args.iter().chain(kwargs.iter().map(|(_, value)| value)))?;
        }
        self.guard_given(args.iter().chain(kwargs.iter().map(|(_, value)| value)).map(|value| &value.object))?;
        let mut objects = Vec::with_capacity(args.len());
        let mut arguments = Vec::with_capacity(args.len());
        for arg in args {
            let object = self.readable(arg)?;
            arguments.push(self.argument(&object)?);
            objects.push(object);
        }
        let keywords = PyDict::new(py);
        let mut named = Vec::with_capacity(kwargs.len());
        for (name, value) in kwargs {
            let object = self.readable(value)?;
            named.push((name.clone(), self.argument(&object)?));
            keywords.set_item(name, object)?;
        }
        let given = PyTuple::new(py, &objects[usize::from(form == Form::Method)..])?;
        self.guard_gradients(&target.qualified, &objects, &given, &keywords)?;
        let location = self.location();
        let place = PyList::new(py, location.iter().cloned())?;
        let (ops, told) = (self.op_count(), self.unbacked_count());
        self.guard_choices(&target.base)?;
        if matches!(form, Form::State | Form::Whole) {
            self.layers.note_unrepeatable();
        }
        if form == Form::Whole {
            self.progress.opaque.set(true);
        }
        let run = match form {
            Form::Whole => RunAs::Whole,
            Form::State => RunAs::Setter,
            Form::Function | Form::Method => RunAs::Operation,
        };
        let result = self.recorder().run(run, callable, &given, &keywords, Some(place.as_any()));
        let result = match result {
            Ok(result) => self.as_program(result)?,
            Err(error) => return Err(self.refused_by_torch(error)),
        };
        if self.has_unbacked() {
            self.layers.note_unrepeatable();
        }
        let writes =
            target.base.ends_with('_') && !target.base.ends_with("__") || target.base == "setitem" || target.base.starts_with("_set");
        if !self.torch.any_fake(&result) && !writes && !matches!(form, Form::State | Form::Whole) {
            if self.op_count() == ops {
                // A metadata query: it is answered now, and requires nothing when the graph runs.
                if args.iter().any(|arg| self.torch.any_fake(&arg.object)) {
                    self.guard_question(&target.base, args)?;
                }
                return Ok(Tracked::new(result));
            }
            // It writes to an argument (`out=`), or is called for the error that it may raise.
            self.layers.note_unrepeatable();
        }
        let node = {
            let mut graph = self.graph.borrow_mut();
            if form == Form::Method {
                graph.call_method(&target.base, arguments, named, Some(location.clone()))
            } else {
                graph.call_function(target, arguments, named, Some(location.clone()))
            }
        };
        self.bind_result(&result, node, &location)?;
        self.spell(&result, node, told, &location)?;
        Ok(Tracked::new(result))
    }

    /// Checks a query about tensors that a fake has answered: it must concern metadata that guards compare.
    fn guard_question(&self, name: &str, args: &[Tracked<'py>]) -> Outcome<()> {
        if QUESTIONS.contains(&name) {
            return Ok(());
        }
        if let ("storage_offset" | "sym_storage_offset", [only]) = (name, args)
            && let Some((real, source)) = self.real_of(&only.object)
        {
            return self.guard_offset(&real, source);
        }
        self.break_graph(reason::TENSOR_ESCAPE, format!("{name}, which tells of a tensor's memory"))
    }

    /// Guards the storage offset of each input, if the graph depends on it.
    pub(crate) fn guard_offsets(&self) -> Outcome<()> {
        if !self.recorder().is_offset_sensitive()? {
            return Ok(());
        }
        let inputs: Vec<_> = self
            .tensors
            .inputs
            .borrow()
            .iter()
            .filter(|input| !input.number)
            .map(|input| (input.real.bind(self.py).clone(), input.source))
            .collect();
        inputs.iter().try_for_each(|(real, source)| self.guard_offset(real, *source))
    }

    /// Guards the storage offset of a tensor, which no other guard checks.
    fn guard_offset(&self, real: &Bound<'py, PyAny>, source: SourceId) -> Outcome<()> {
        let method = self.guards.source(Source::GetAttr(source, "storage_offset".into()));
        let none = self.guarded(Constant::new(PyTuple::empty(self.py).as_any()).map_err(Into::into))?;
        let Some(none) = none else { return self.break_graph(reason::INTERNAL_ERROR, "no constant of an empty tuple") };
        let offset = dynamlir_interpreter::suspended(|| real.call_method0("storage_offset"))?;
        self.guarded(self.guards.equals(self.guards.source(Source::Answer(method, none)), &offset))?;
        Ok(())
    }

    /// Returns an attribute that the class of an existing tensor does not have: it was stored on the tensor itself, or is missing.
    fn stored_on_tensor(
        &self,
        real: &Bound<'py, PyAny>,
        source: SourceId,
        name: &Bound<'py, PyString>,
        key: &str,
    ) -> Outcome<Tracked<'py>> {
        let class = self.class_source(real, source)?;
        self.guards.absent(self.guards.type_attr(class, key));
        match real.getattr(name) {
            Ok(value) => {
                let at = self.guards.source(Source::GetAttr(source, key.into()));
                self.guards.present(at);
                self.wrap(value, at)
            }
            Err(error) => {
                if error.is_instance_of::<PyAttributeError>(self.py) {
                    self.guards.absent(self.guards.attr(source, key));
                }
                Err(error.into())
            }
        }
    }
}

impl<'py> Sources<'py> {
    /// Returns `torch.Tensor`, the class of tensors that the frame creates.
    pub(crate) fn tensor_class(&self) -> Outcome<Bound<'py, PyType>> {
        Ok(dynamlir_cpython_abi::import(self.py, "torch")?.getattr("Tensor")?.cast_into::<PyType>().map_err(PyErr::from)?)
    }
}

impl<'py> Heap<'py> {
    /// Guards a method or another descriptor of a tensor class, which a program may patch.
    pub(crate) fn pin_member(&self, class: &Bound<'py, PyType>, key: &str, member: &Bound<'py, PyAny>) -> Outcome<()> {
        let label: String = class.fully_qualified_name()?.extract()?;
        let at = self.guards.type_attr(self.guarded(self.guards.hold(class, &label))?, key);
        if self.torch.is_primitive(member) {
            return self.guard_value(&Tracked { object: member.clone(), source: Some(at) });
        }
        self.guarded(self.guards.identity(at, member))?;
        // A function is traced into when it is called; anything else that was patched in runs unseen.
        if member.is_exact_instance_of::<PyFunction>() || self.is_torch_member(member)? {
            return Ok(());
        }
        self.refuse_patched(class, key, member)
    }
}

impl<'py> Recipes<'py> {
    /// Assigns nodes to the fakes in a result: the call's own node, or items of it.
    pub(crate) fn bind_result(&self, result: &Bound<'py, PyAny>, node: NodeId, location: &[Line]) -> Outcome<()> {
        if self.torch.is_fake(result) {
            self.bind(result, node);
            return Ok(());
        }
        if result.is_instance_of::<PyTuple>() || result.is_instance_of::<PyList>() {
            // The garbage collector does not track torch's named results.
            self.note_new(result);
            for (at, item) in result.try_iter()?.enumerate() {
                let item = item?;
                if self.torch.any_fake(&item) {
                    let getitem = dynamlir_cpython_abi::import(self.py, "operator")?.getattr("getitem")?;
                    let target = Target::new("getitem", "operator.getitem", getitem.unbind());
                    let part = self.graph.borrow_mut().call_function(
                        target,
                        vec![Argument::Node(node), Argument::Int(at as i64)],
                        vec![],
                        Some(location.to_vec()),
                    );
                    self.bind_result(&item, part, location)?;
                }
            }
        }
        Ok(())
    }
}

impl<'py> Operations<'py> {
    /// Returns an attribute of a tensor: metadata, a method, a view such as `.T`, or a value that the user stored on the tensor.
    pub fn tensor_attr(&self, fake: &Bound<'py, PyAny>, name: &Bound<'py, PyString>) -> Outcome<Tracked<'py>> {
        let key = text(name)?;
        if self.torch.is_number(fake) && key != "__class__" {
            return self.needs_value(fake, "an attribute of");
        }
        if matches!(key.as_str(), "_grad" | "grad" | "requires_grad")
            && let Some((real, _)) = self.real_of(fake)
            && let Some(written) = self.written_to_tensor(&real, &key)
        {
            return Ok(written);
        }
        match key.as_str() {
            "__class__" => return self.class_of(&Tracked::new(fake.clone())),
            "is_leaf" | "output_nr" | "retains_grad" => {
                // No other guard checks how a tensor was created.
                if let Some((real, source)) = self.real_of(fake) {
                    return self.wrap(real.getattr(name)?, self.guards.source(Source::GetAttr(source, key.into())));
                }
            }
            "_grad" | "grad" | "grad_fn" if !fake.getattr("requires_grad")?.is_truthy()? => {
                if key != "grad_fn"
                    && let Some((real, source)) = self.real_of(fake)
                {
                    // Any code may set it.
                    return self.wrap(real.getattr(name)?, self.guards.source(Source::GetAttr(source, key.into())));
                }
                return Ok(Tracked::new(self.py.None().into_bound(self.py)));
            }
            "_grad" | "grad" => {
                // A graph does not set gradients of its inputs. For tensors other than leaves torch warns, or does not keep gradients.
                if let Some((real, source)) = self.real_of(fake)
                    && real.getattr("is_leaf")?.is_truthy()?
                {
                    let of = |name: &str| self.guards.source(Source::GetAttr(source, name.into()));
                    self.guarded(self.guards.equals(of("is_leaf"), &real.getattr("is_leaf")?))?;
                    return self.wrap(real.getattr(name)?, of(&key));
                }
                return self.break_graph(reason::TENSOR_ESCAPE, format!("Tensor.{key}"));
            }
            "backward" | "cpu" | "requires_grad_" => {}
            // The graph would have to break for it, and everything computed up to there is a single node of the history.
            "grad_fn" => return self.break_graph(reason::HISTORY, format!("Tensor.{key}")),
            _ if ESCAPES.contains(&key.as_str()) => return self.break_graph(reason::TENSOR_ESCAPE, format!("Tensor.{key}")),
            _ => {}
        }
        if let Some((real, source)) = self.real_of(fake) {
            match lookup(&real.get_type(), &key)? {
                None => return self.stored_on_tensor(&real, source, name, &key),
                Some(value) if self.torch.is_primitive(&value) => {
                    // Other code has set it on the class.
                    let class = self.class_source(&real, source)?;
                    let found = real.getattr(name)?;
                    if !found.is(&value) {
                        return self.wrap(found, self.guards.source(Source::GetAttr(source, key.into())));
                    }
                    self.guards.absent(self.guards.attr(source, &key));
                    return self.wrap(value, self.guards.type_attr(class, &key));
                }
                Some(member) => {
                    self.pin_member(&real.get_type(), &key, &member)?;
                    // A value stored on a tensor takes precedence over a member that only its class has, if that is a method, but not over
                    // its shape.
                    let hidden = matches!(classify(&real.get_type(), &key)?, ClassAttr::Function(_) | ClassAttr::Descriptor(_));
                    if hidden && instance_dict(&real).is_some_and(|dict| dict.contains(name).unwrap_or(true)) {
                        return self.wrap(real.getattr(name)?, self.guards.source(Source::GetAttr(source, key.into())));
                    }
                    if hidden {
                        self.guards.absent(self.guards.attr(source, &key));
                    }
                }
            }
        } else {
            let class = self.tensor_class()?;
            match lookup(&class, &key)? {
                Some(member) => self.pin_member(&class, &key, &member)?,
                None => self.guards.absent(self.guards.type_attr(self.guarded(self.guards.hold(&class, "torch.Tensor"))?, &key)),
            }
        }
        let inputs = self.tensors.inputs.borrow().len();
        let value = self.recorder().attribute(fake, name.as_any(), &PyList::new(self.py, self.location())?);
        debug_assert_eq!(inputs, self.tensors.inputs.borrow().len());
        match value {
            Ok(value) => {
                let value = self.as_program(value)?;
                if self.torch.is_fake(&value) && self.node(&value).is_none() {
                    let getattr = dynamlir_cpython_abi::import(self.py, "builtins")?.getattr("getattr")?;
                    let target = Target::new(&key, "getattr", getattr.unbind());
                    let receiver = self.argument(fake)?;
                    let node =
                        self.graph.borrow_mut().call_function(target, vec![receiver, Argument::Str(key)], vec![], Some(self.location()));
                    self.bind(&value, node);
                }
                Ok(Tracked::new(value))
            }
            Err(error) if error.is_instance_of::<PyAttributeError>(self.py) => Err(error.into()),
            Err(error) => Err(self.session_error(error)),
        }
    }
}

/// Returns the qualified name of a callable: `torch.relu`, `torch.nn.functional.linear`, `torch.ops.aten.add.Tensor`.
fn qualified_name(callable: &Bound<'_, PyAny>, name: &str) -> String {
    let py = callable.py();
    let public = |module: &str| {
        // Read from the module's dict: for a missing attribute, torch runs Python code.
        let found = dynamlir_cpython_abi::import(py, module).and_then(|module| module.dict().get_item(name)).ok().flatten();
        found.is_some_and(|found| found.is(callable)).then(|| format!("{module}.{name}"))
    };
    for module in ["torch", "torch.nn.functional", "torch.special", "torch.linalg", "torch.fft"] {
        if let Some(found) = public(module) {
            return found;
        }
    }
    match callable.getattr("__module__").and_then(|module| module.extract::<String>()) {
        Ok(module) => format!("{module}.{name}"),
        Err(_) => shown::str(callable).map_or_else(|_| name.to_owned(), |text| format!("torch.ops.{text}")),
    }
}

/// Evaluates `len(tensor)`, with torch's own error for a tensor without rows.
pub(crate) fn rows<'py>(fake: &Bound<'py, PyAny>) -> Outcome<Tracked<'py>> {
    // Torch creates its symbolic sizes in Python code.
    let shape = dynamlir_interpreter::suspended(|| as_program(&fake.getattr("shape")?))?;
    if shape.len()? == 0 {
        return Err(PyTypeError::new_err("len() of a 0-d tensor").into());
    }
    Ok(Tracked::new(shape.get_item(0)?))
}
