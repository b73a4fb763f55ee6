//! The function's boundary: what it returns, and how the runtime makes the user's outputs and mutations of it.

use std::collections::HashMap;

use dynamlir_dialect::{
    ir::{Attr, Block, Op, Type, Value},
    pass::{PassError, PassResult},
};
use dynamlir_reasons::ALIASING;

use super::{Rewriter, by_ref, outside};

/// The results of `@main`, as they are decided on.
#[derive(Default)]
struct Results {
    values: Vec<Value>,
    attrs: Vec<Attr>,
    versions: Vec<i64>,
    /// Which result is the root of a storage.
    of_storage: HashMap<usize, usize>,
    /// Where a tensor object was an output first.
    first: HashMap<Value, usize>,
}

impl Rewriter {
    /// Ends the new function: its return, its type and its attributes.
    pub fn finish(&mut self, old: Op, new: Op, exit: Op) -> PassResult {
        for (name, attr) in old.attrs() {
            if name != "function_type" && name != "res_attrs" {
                new.set_attr(&name, attr);
            }
        }
        let values = if self.entry { self.finish_entry(old, new, exit)? } else { self.current(exit, &exit.operands())? };
        let inputs: Vec<_> = self.b.block().args().iter().map(|arg| arg.ty()).collect();
        let results: Vec<_> = values.iter().map(|value| value.ty()).collect();
        new.set_attr("function_type", Type::function(self.b.ctx(), &inputs, &results).as_attr());
        self.b.op("func.return", &values, &[], &[]);
        Ok(())
    }

    fn current(&mut self, op: Op, tensors: &[Value]) -> Result<Vec<Value>, PassError> {
        tensors.iter().map(|&tensor| self.read(op, tensor)).collect()
    }

    fn finish_entry(&mut self, old: Op, new: Op, exit: Op) -> Result<Vec<Value>, PassError> {
        let ctx = self.b.ctx();
        let tensors = exit.operands();
        let recorded = old.attr_i64s("dynamo.versions").unwrap_or_default();
        let entries = old.attr("dynamo.outputs").and_then(Attr::as_array);
        let entries = entries.unwrap_or_else(|| (0..tensors.len()).filter_map(|i| output(&old, &format!("result {i}"))).collect());
        let mut results = Results::default();
        let mut outputs = Vec::new();
        for (position, entry) in entries.into_iter().enumerate() {
            let Some(number) = result_number(entry) else {
                outputs.push(entry);
                continue;
            };
            let Some(&tensor) = tensors.get(number) else {
                return Err(PassError::at(old, format!("dynamo.outputs names result {number} of {}", tensors.len())));
            };
            let made = self.output(exit, tensor, position, recorded.get(number).copied(), &mut results)?;
            outputs.push(output(&old, &made).ok_or_else(|| PassError::at(old, format!("cannot express output {made}")))?);
        }
        let arg_versions = self.mutations(old, exit, &mut results)?;
        new.set_attr("dynamo.outputs", Attr::array(ctx, &outputs));
        new.set_attr("arg_attrs", self.argument_attrs(old));
        new.set_attr("res_attrs", Attr::array(ctx, &results.attrs));
        new.remove_attr("dynamo.versions");
        if results.versions.iter().any(|&count| count != 0) {
            new.set_attr("dynamo.versions", Attr::i64s(ctx, &results.versions));
        }
        if !arg_versions.is_empty() {
            new.set_attr("dynamo.arg_versions", Attr::i64s(ctx, &arg_versions));
        }
        Ok(results.values)
    }

    /// How one tensor output is made; adds the function result it needs.
    fn output(
        &mut self,
        exit: Op,
        tensor: Value,
        position: usize,
        version: Option<i64>,
        results: &mut Results,
    ) -> Result<String, PassError> {
        let object = self.aliasing.object(tensor);
        if let Some(arg) = object.arg_index() {
            return Ok(format!("arg {arg}"));
        }
        if let Some(first) = results.first.get(&object) {
            return Ok(format!("same {first}"));
        }
        results.first.insert(object, position);
        let ty = tensor.ty();
        let maker = tensor.def().unwrap_or(exit);
        let view = |kind: &str, index| format!("{kind} {index}, {:?}, {:?}, {}", ty.shape(), ty.strides(), ty.offset());
        let argument = self.aliasing.argument(tensor);
        let number = self.aliasing.storage(tensor);
        let storage = &self.aliasing.storages[number];
        let root = argument.map_or(storage.roots[0], |arg| self.argument_root(number, arg));
        if ty.element() != root.ty().element() {
            return Err(PassError::refusal(maker, ALIASING, "an output shows memory of another element type"));
        }
        if let Some(arg) = argument {
            return Ok(view("arg_view", arg));
        }
        if root.ty().offset() != 0 {
            return Err(PassError::refusal(maker, ALIASING, "an output shows fresh memory that does not start at its tensor"));
        }
        let (version, strides) = (version.unwrap_or(storage.bumps), root.ty().strides());
        let index = if let Some(&index) = results.of_storage.get(&number) {
            index
        } else {
            let value = self.read(exit, root)?;
            let attrs = [("dynamo.strides", Attr::i64s(self.b.ctx(), &strides))];
            results.push(value, Attr::dict(self.b.ctx(), &attrs), version);
            results.of_storage.insert(number, results.values.len() - 1);
            results.values.len() - 1
        };
        Ok(if object == root { format!("result {index}") } else { view("result_view", index) })
    }

    /// The root of a storage that is this argument.
    fn argument_root(&self, storage: usize, argument: usize) -> Value {
        let roots = &self.aliasing.storages[storage].roots;
        roots.iter().copied().find(|root| root.arg_index() == Some(argument)).unwrap_or(roots[0])
    }

    /// One result for each argument that must be written so that all changes are seen. Returns their version bumps.
    fn mutations(&mut self, old: Op, exit: Op, results: &mut Results) -> Result<Vec<i64>, PassError> {
        let mut bumps = Vec::new();
        for number in 0..self.aliasing.storages.len() {
            let storage = &self.aliasing.storages[number];
            let (count, roots) = (storage.bumps, storage.roots.clone());
            if !storage.mutated || roots.iter().any(|root| root.arg_index().is_none()) {
                continue;
            }
            let number = self.base(old, number)?;
            let covering = self.bases[number].as_ref().map(|base| base.covering.clone()).unwrap_or_default();
            for root in covering.into_iter().map(|i| roots[i]) {
                let index = root.arg_index().ok_or_else(|| outside(old))?;
                let value = self.read(exit, root)?;
                results.push(value, Attr::dict(self.b.ctx(), &[("dynamo.mutates", Attr::i64(self.b.ctx(), index as i64))]), 0);
                bumps.push(count);
            }
        }
        Ok(bumps)
    }

    /// Layouts of the arguments, beside what the importer noted.
    fn argument_attrs(&self, old: Op) -> Attr {
        let ctx = self.b.ctx();
        let noted = old.attr("arg_attrs").and_then(Attr::as_array).unwrap_or_default();
        let args = old.body().map(Block::args).unwrap_or_default();
        let attrs: Vec<_> = args
            .iter()
            .enumerate()
            .map(|(i, arg)| {
                let mut entries = noted.get(i).map(|attrs| attrs.entries()).unwrap_or_default();
                entries.retain(|(name, _)| name != "dynamo.strides" && name != "dynamo.offset");
                entries.push(("dynamo.strides".into(), Attr::i64s(ctx, &arg.ty().strides())));
                entries.push(("dynamo.offset".into(), Attr::i64(ctx, arg.ty().offset())));
                Attr::dict(ctx, &by_ref(&entries))
            })
            .collect();
        Attr::array(ctx, &attrs)
    }
}

impl Results {
    fn push(&mut self, value: Value, attrs: Attr, version: i64) {
        self.values.push(value);
        self.attrs.push(attrs);
        self.versions.push(version);
    }
}

/// `#dynamo.output<text>`
fn output(op: &Op, text: &str) -> Option<Attr> {
    Attr::parse(op.ctx(), &format!("#dynamo.output<{text}>"))
}

/// The number in `#dynamo.output<result …>`.
fn result_number(entry: Attr) -> Option<usize> {
    entry.to_string().strip_prefix("#dynamo.output<result ")?.strip_suffix('>')?.parse().ok()
}
