//! Writes a trace as IR.

use std::collections::HashMap;

use dynamlir_dialect::{
    ir::{
        self, Attr, AttrValue, Block, Builder, Ctx, Device, Layout, Loc, MemoryFormat, Op, Symbol, Type, Value,
        sizes::{self, SizeSymbol},
    },
    ops::{self, AtenOp},
};
use dynamlir_shapes::{Dim, Window};
use dynamlir_torch_abi::DType;

use crate::{Arg, Base, Creation, Error, Frame, Input, OpCall, Output, TensorType, Trace};

impl Trace {
    /// Appends `func.func @main`, and the decompositions it refers to, to a module's body.
    pub fn write(&self, module: Block, ctx: Ctx) -> Result<(), Error> {
        Writer { ctx, module, libraries: &self.libraries, functions: 0, types: HashMap::new() }.function(self, "main", true)
    }
}

struct Writer<'t> {
    ctx: Ctx,
    module: Block,
    /// Folders of library code, which users do not debug.
    libraries: &'t [String],
    /// Decompositions written so far.
    functions: usize,
    /// Cache of the types created so far: there are few.
    types: HashMap<&'t TensorType, Type>,
}

fn fail<T>(message: impl Into<String>, location: &[Frame]) -> Result<T, Error> {
    Err(Error { message: message.into(), location: location.to_vec() })
}

impl<'t> Writer<'t> {
    fn function(&mut self, trace: &'t Trace, name: &str, entry: bool) -> Result<(), Error> {
        let inputs: Vec<Type> = trace.inputs.iter().map(|input| self.ty(&input.ty, &[])).collect::<Result<_, _>>()?;
        let unknown = Loc::unknown(self.ctx);
        let (func, body) = Builder::at_end(self.module, unknown).func(name, &inputs, &[], &[]);
        let mut values: Vec<Value> = body.args();
        for call in &trace.ops {
            let b = Builder::at_end(body, self.location(&call.location));
            values.extend(self.op(call, &values, &b)?);
        }

        let mut outputs = Vec::new();
        let mut returned = Vec::new();
        let mut versions = Vec::new();
        let mut bases = Vec::new();
        let (mut differentiable, mut gradients) = (Vec::new(), Vec::new());
        let (mut without_grad, mut one_of_several) = (Vec::new(), Vec::new());
        // The first output of each call that returned several views, and for each further output of such a call that first one.
        let (mut first, mut beside): (HashMap<Op, i64>, Vec<i64>) = (HashMap::new(), Vec::new());
        for (position, output) in (0_i64..).zip(&trace.outputs) {
            let mut base = Base::None;
            beside.push(-1);
            let output = match output {
                Output::Value(output) => {
                    let Some(value) = values.get(output.value) else {
                        return fail(format!("output names value {}, which does not exist", output.value), &[]);
                    };
                    returned.push(*value);
                    versions.push(output.version);
                    base = output.base;
                    differentiable.extend(output.requires_grad.then_some(position));
                    without_grad.extend((output.creation == Creation::NoGrad).then_some(position));
                    if output.creation == Creation::OneOfSeveral {
                        one_of_several.push(position);
                        let first = value.def().map(|op| *first.entry(op).or_insert(position));
                        beside.pop();
                        beside.push(first.filter(|first| *first != position).unwrap_or(-1));
                    }
                    let gradient = output.gradient.map(|operand| ops::GRADIENT.with(self.ctx, operand));
                    gradients.push(Attr::dict(self.ctx, &gradient.into_iter().collect::<Vec<_>>()));
                    ir::Output::Result(returned.len() - 1)
                }
                Output::None => ir::Output::None,
                Output::Int(value) => ir::Output::Constant(*value),
            };
            outputs.push(ir::Output::write(self.ctx, &output));
            bases.push(Base::write(self.ctx, base));
        }
        let b = Builder::at_end(body, unknown);
        b.func_return(&returned);
        let results: Vec<Type> = returned.iter().map(|v| v.ty()).collect();
        func.set_attr("function_type", Type::function(self.ctx, &inputs, &results).as_attr());
        if entry {
            ops::ENTRY.set(func, ());
            ops::OUTPUTS.set(func, &outputs);
            ops::BASES.set(func, &bases);
            ops::VERSIONS.set(func, &versions);
            sizes::declare(func, &trace.symbols);
            sizes::set_assumed(func, &trace.assumed);
            if trace.random {
                ops::RANDOM.set(func, ());
            }
            if trace.order > 1 {
                ops::ORDER.set(func, trace.order);
                if trace.path.iter().any(|node| *node != 0) {
                    ops::PATH.set(func, &trace.path);
                }
                if !trace.given.is_empty() {
                    ops::GIVEN.set(func, &trace.given);
                }
            }
            let named = [(differentiable, ops::DIFFERENTIABLE), (without_grad, ops::WITHOUT_GRAD), (one_of_several, ops::ONE_OF_SEVERAL)];
            for (positions, attribute) in named {
                if !positions.is_empty() {
                    attribute.set(func, &positions);
                }
            }
            if beside.iter().any(|first| *first >= 0) {
                ops::MADE_BESIDE.set(func, &beside);
            }
            func.set_attr("arg_attrs", self.arg_attrs(trace));
        } else {
            sizes::declare(func, &trace.symbols.iter().map(|symbol| SizeSymbol { place: None, ..*symbol }).collect::<Vec<_>>());
            sizes::set_assumed(func, &trace.assumed);
            func.set_attr("sym_visibility", Attr::str(self.ctx, "private"));
            if trace.keeps {
                ops::ONCE.set(func, ());
            }
            if trace.inputs.iter().any(|input| input.tangent.is_some()) {
                let tangent = |input: &Input| input.tangent.map(|result| ops::TANGENT.with(self.ctx, result));
                let each = |input| Attr::dict(self.ctx, &tangent(input).into_iter().collect::<Vec<_>>());
                func.set_attr("arg_attrs", Attr::array(self.ctx, &trace.inputs.iter().map(each).collect::<Vec<_>>()));
                func.set_attr("res_attrs", Attr::array(self.ctx, &gradients));
            }
        }
        Ok(())
    }

    /// Names, storages if inputs share one, and the changes of versions and gradients.
    fn arg_attrs(&self, trace: &Trace) -> Attr {
        let mut users: HashMap<i64, usize> = HashMap::new();
        for input in &trace.inputs {
            *users.entry(input.storage).or_default() += 1;
        }
        let each: Vec<Attr> = trace
            .inputs
            .iter()
            .map(|input| {
                let mut entries = vec![ops::NAME.with(self.ctx, &input.name)];
                if users[&input.storage] > 1 {
                    entries.push(ops::STORAGE.with(self.ctx, input.storage));
                }
                if input.version_bumps != 0 {
                    entries.push(ops::VERSION_BUMPS.with(self.ctx, input.version_bumps));
                }
                if input.requires_grad {
                    entries.push(ops::REQUIRES_GRAD.with(self.ctx, ()));
                }
                Attr::dict(self.ctx, &entries)
            })
            .collect();
        Attr::array(self.ctx, &each)
    }

    fn ty(&mut self, ty: &'t TensorType, location: &[Frame]) -> Result<Type, Error> {
        if let Some(made) = self.types.get(ty) {
            return Ok(*made);
        }
        if ty.dtype == "none" {
            // A result that the operator leaves undefined; it has no uses.
            return Ok(Type::mutable(&[0], Type::f32(self.ctx), &[1], 0));
        }
        if DType::from_name(&ty.dtype).is_none() {
            return fail(format!("element type {} is not supported", ty.dtype), location);
        }
        let is_negative = |size: &Dim| size.known().is_some_and(|number| number < 0);
        let wrong =
            || Error { message: "a tensor whose sizes, strides and offset do not fit together".to_owned(), location: location.to_vec() };
        if is_negative(&ty.offset) || ty.strides.iter().any(is_negative) {
            return Err(wrong());
        }
        let window = Window::new(ty.sizes.clone(), ty.strides.clone(), ty.offset.clone()).map_err(|_| wrong())?;
        let element = Type::parse(self.ctx, &ty.dtype).ok_or_else(|| Error { message: ty.dtype.clone(), location: location.to_vec() })?;
        let made = Type::mutable_of(&window, element).ok_or_else(wrong)?;
        self.types.insert(ty, made);
        Ok(made)
    }

    /// `loc("function"("file":line:column))` of the innermost user frame; if the innermost frame is in a library, as the callee of a call site.
    /// The frames between and around them would make the text unreadable.
    fn location(&self, frames: &[Frame]) -> Loc {
        let at = |frame: &Frame| Loc::named(self.ctx, &frame.function, Loc::file(self.ctx, &frame.file, frame.line, frame.column));
        let Some(inner) = frames.first() else { return Loc::unknown(self.ctx) };
        let is_users = |frame: &&Frame| !self.libraries.iter().any(|folder| frame.file.starts_with(folder.as_str()));
        match frames.iter().find(is_users) {
            Some(user) if user != inner => Loc::call_site(at(inner), at(user)),
            _ => at(inner),
        }
    }

    fn op(&mut self, call: &'t OpCall, values: &[Value], b: &Builder) -> Result<Vec<Value>, Error> {
        let mut operands = Vec::new();
        let args: Vec<Attr> = call.args.iter().map(|arg| self.arg(arg, values, &mut operands, call)).collect::<Result<_, _>>()?;
        let results: Vec<Type> = call.results.iter().map(|ty| self.ty(ty, &call.location)).collect::<Result<_, _>>()?;
        let decomposition = call.decomposition.as_deref().map(|trace| self.nested("decomposition", trace)).transpose()?;
        let vjp = call.vjp.as_deref().map(|trace| self.nested("vjp", trace)).transpose()?;
        let mutates = (!call.mutates.is_empty()).then_some(&call.mutates[..]);
        let (functional, [decomposition, vjp]) =
            (call.functional.as_deref(), [decomposition, vjp].map(|name| name.as_deref().map(Symbol::flat)));
        let (aliases, grad) = (Some(&call.aliases[..]), call.grad_enabled);
        let (decomposition, vjp) = (decomposition.as_ref(), vjp.as_ref());
        let op =
            AtenOp::build(b, &call.schema, &operands, &args, aliases, mutates, functional, decomposition, vjp, None, None, grad, &results);
        if let Some(checkpoint) = call.recompute {
            ops::RECOMPUTE.set(op.op(), checkpoint);
        }
        if call.materialized {
            ops::MATERIALIZED.set(op.op(), ());
        }
        if call.not_linear {
            ops::NOT_LINEAR.set(op.op(), ());
        }
        if call.once {
            ops::ONCE_DIFFERENTIABLE.set(op.op(), ());
        }
        if call.unseen {
            ops::UNSEEN.set(op.op(), ());
        }
        Ok(op.outputs())
    }

    /// Writes a private function next to the one being written, and returns its name.
    fn nested(&mut self, kind: &str, trace: &'t Trace) -> Result<String, Error> {
        let name = format!("{kind}_{}", self.functions);
        self.functions += 1;
        self.function(trace, &name, false)?;
        Ok(name)
    }

    fn arg(&self, arg: &Arg, values: &[Value], operands: &mut Vec<Value>, call: &OpCall) -> Result<Attr, Error> {
        let ctx = self.ctx;
        Ok(match arg {
            Arg::Tensor(id) => {
                let Some(value) = values.get(*id) else {
                    return fail(format!("{} uses value {id}, which does not exist", call.schema), &call.location);
                };
                operands.push(*value);
                Attr::operand(ctx, operands.len() - 1)
            }
            Arg::List(list) => {
                let list: Vec<Attr> = list.iter().map(|arg| self.arg(arg, values, operands, call)).collect::<Result<_, _>>()?;
                Attr::array(ctx, &list)
            }
            Arg::None => Attr::unit(ctx),
            Arg::Int(value) => Attr::i64(ctx, *value),
            Arg::Size(size) => Dim::write(ctx, size),
            Arg::Float(value) => Attr::f64(ctx, *value),
            Arg::Bool(value) => Attr::bool(ctx, *value),
            Arg::Str(value) => Attr::str(ctx, value),
            Arg::DType(name) => match Type::parse(ctx, name) {
                Some(ty) => ty.as_attr(),
                None => return fail(format!("element type {name} is not supported"), &call.location),
            },
            Arg::Device(text) => Device::write(ctx, text),
            Arg::MemoryFormat(text) => MemoryFormat::write(ctx, text),
            Arg::Layout(text) => Layout::write(ctx, text),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Returned;
    use dynamlir_dialect::{Session, context::module_op};

    fn tensor(sizes: &[i64], strides: &[i64]) -> TensorType {
        let all = |numbers: &[i64]| numbers.iter().copied().map(Dim::from).collect();
        TensorType { dtype: "f32".into(), sizes: all(sizes), strides: all(strides), offset: 0.into() }
    }

    fn add_in_place() -> Trace {
        let mut trace = Trace::new("t");
        let ty = tensor(&[2, 3], &[3, 1]);
        let x = trace.input(Input { name: "x".into(), ty, storage: 0, version_bumps: 1, requires_grad: true, tangent: None });
        let location = [Frame { file: "model.py".into(), line: 12, column: 5, function: "forward".into() }].into();
        let op = OpCall {
            schema: "aten.add_.Tensor".into(),
            args: vec![Arg::Tensor(x), Arg::Tensor(x), Arg::Int(1)],
            results: [tensor(&[2, 3], &[3, 1])].into(),
            aliases: vec![0],
            mutates: vec![0],
            functional: Some("aten.add.Tensor".into()),
            grad_enabled: false,
            decomposition: None,
            vjp: None,
            recompute: None,
            materialized: false,
            not_linear: false,
            once: false,
            unseen: false,
            location,
        };
        let y = trace.op(op);
        trace.outputs = vec![Output::Value(Returned { requires_grad: true, ..Returned::of(y) }), Output::None];
        trace
    }

    #[test]
    fn a_trace_becomes_a_module_that_verifies_and_names_the_python_line() {
        let session = Session::new();
        let module = session.parse("module {}").expect("parses");
        let body = module_op(&module).body().expect("has a body");
        add_in_place().write(body, session.ctx()).expect("writes");
        assert!(module_op(&module).verify(), "{}", session.take_diagnostics());
        let text = module_op(&module).text_with_locations();
        assert!(text.contains("dynamo.aten \"aten.add_.Tensor\"(%arg0, %arg0)"), "{text}");
        assert!(text.contains("\"model.py\":12:5"), "{text}");
    }

    #[test]
    fn what_a_call_does_beside_its_values_stands_on_the_function() {
        let session = Session::new();
        let module = session.parse("module {}").expect("parses");
        let body = module_op(&module).body().expect("has a body");
        let mut trace = add_in_place();
        trace.random = true;
        trace.write(body, session.ctx()).expect("writes");
        assert!(module_op(&module).verify(), "{}", session.take_diagnostics());
        let text = module_op(&module).text();
        assert!(text.contains("{dynamo.name = \"x\", dynamo.requires_grad, dynamo.version_bumps = 1 : i64}"), "{text}");
        assert!(text.contains("dynamo.bases = [#dynamo.base<none>, #dynamo.base<none>]"), "{text}");
        assert!(text.contains("dynamo.differentiable = array<i64: 0>") && !text.contains("without_grad"), "{text}");
        assert!(text.contains("dynamo.random") && text.contains("dynamo.versions = array<i64: 0>"), "{text}");
    }

    #[test]
    fn unknown_values_and_types_are_errors() {
        let session = Session::new();
        let module = session.parse("module {}").expect("parses");
        let body = module_op(&module).body().expect("has a body");
        let mut trace = add_in_place();
        trace.ops[0].args[0] = Arg::Tensor(9);
        let error = trace.write(body, session.ctx()).expect_err("value 9 does not exist");
        assert_eq!(error.location[0].line, 12);
        let mut trace = add_in_place();
        trace.inputs[0].ty.dtype = "f8".into();
        assert!(trace.write(body, session.ctx()).expect_err("no such type").message.contains("f8"));
    }
}
