//! The function's boundary: its results, and how the runtime turns them into the user's outputs and mutations.

use std::collections::{HashMap, HashSet};

use dynamlir_dialect::{
    ir::{Attr, AttrValue, Base, Block, Op, Output, Type, Value},
    ops,
    pass::{PassError, PassResult},
    upstream::func,
};
use dynamlir_reasons::ALIASING;
use dynamlir_shapes::{Dim, Dimension, row_major_in};

use super::{
    Rewriter, bases, by_ref,
    coordinates::{Window, shown},
    outside,
    pairs::{as_reals, in_reals, paired, reals_of},
};

/// The results of `@main` collected so far.
#[derive(Default)]
struct Results {
    values: Vec<Value>,
    attrs: Vec<Attr>,
    /// The version counters of the results that become user outputs; these results come first.
    versions: Vec<i64>,
    /// For each storage, the result that is its root, and that result's element type.
    of_storage: HashMap<usize, (usize, Type)>,
    /// The first output position of each tensor object.
    first: HashMap<Value, usize>,
    /// For each output, the recorded tensor that it is a view of in eager.
    recorded: Vec<Option<Base>>,
    /// The objects that are returned; some of them are results themselves.
    objects: HashSet<Value>,
}

impl Rewriter {
    /// Completes the new function: its return, its type and its attributes.
    pub fn finish(&mut self, old: Op, new: Op, exit: Op) -> PassResult {
        for (name, attr) in old.attrs() {
            // A derivative's result attributes say whose gradients they are; those of an entry are recomputed.
            if name != func::FUNCTION_TYPE && (name != func::RES_ATTRS || !self.entry) {
                new.set_attr(&name, attr);
            }
        }
        let values = if self.entry { self.finish_entry(old, new, exit)? } else { self.current(exit, &exit.operands())? };
        let inputs: Vec<_> = self.b.block().args().iter().map(|arg| arg.ty()).collect();
        let results: Vec<_> = values.iter().map(|value| value.ty()).collect();
        new.set_attr(func::FUNCTION_TYPE, Type::function(self.b.ctx(), &inputs, &results).as_attr());
        self.b.func_return(&values);
        Ok(())
    }

    fn current(&mut self, op: Op, tensors: &[Value]) -> Result<Vec<Value>, PassError> {
        tensors.iter().map(|&tensor| self.read(op, tensor)).collect()
    }

    fn finish_entry(&mut self, old: Op, new: Op, exit: Op) -> Result<Vec<Value>, PassError> {
        let ctx = self.b.ctx();
        let tensors = exit.operands();
        let recorded = ops::VERSIONS.of(old);
        // Without a list, the results are the user's outputs.
        let entries = ops::OUTPUTS.of(old).map(|entries| entries.into_iter().map(Output::read).collect::<Option<Vec<_>>>());
        let entries = entries.unwrap_or_else(|| Some((0..tensors.len()).map(Output::Result).collect()));
        let mut results = Results {
            recorded: ops::BASES.of(old).unwrap_or_default().into_iter().map(Base::read).collect(),
            objects: tensors.iter().map(|&tensor| self.aliasing.object(tensor)).collect(),
            ..Results::default()
        };
        let mut outputs = Vec::new();
        let mut made = Vec::new();
        let entries = entries.ok_or_else(|| PassError::at(old, "dynamo.outputs lists something else"))?;
        for (position, entry) in entries.iter().cloned().enumerate() {
            let output = match entry {
                Output::Result(number) => {
                    let Some(&tensor) = tensors.get(number) else {
                        return Err(PassError::at(old, format!("dynamo.outputs names result {number} of {}", tensors.len())));
                    };
                    let output = self.output(exit, tensor, position, &mut results)?;
                    let storage = self.aliasing.storage(tensor);
                    if let Some(&(result, _)) = results.of_storage.get(&storage) {
                        // All tensors of one storage share a version counter.
                        let version = recorded.as_ref().and_then(|versions| versions.get(number).copied());
                        let version = version.unwrap_or(self.aliasing.storages[storage].bumps);
                        results.versions[result] = results.versions[result].max(version);
                    }
                    output
                }
                other => other,
            };
            outputs.push(Output::write(ctx, &output));
            made.push(output);
        }
        let written = self.mutations(old, exit, &mut results)?;
        ops::OUTPUTS.set(new, &outputs);
        new.set_attr(func::ARG_ATTRS, self.argument_attrs(old, if recorded.is_some() { &[] } else { &written }));
        new.set_attr(func::RES_ATTRS, Attr::array(ctx, &results.attrs));
        ops::VERSIONS.remove(new);
        if results.versions.iter().any(|&count| count != 0) {
            ops::VERSIONS.set(new, &results.versions);
        }
        ops::BASES.remove(new);
        let bases = bases::to_be_made(ctx, &made, &results.recorded);
        if let Some(bases) = &bases {
            ops::BASES.set(new, bases);
        }
        let mut views = Vec::new();
        for position in ops::DIFFERENTIABLE.of(old).unwrap_or_default() {
            let tensor =
                usize::try_from(position).ok().and_then(|at| tensor_of(&entries, &made, at)).and_then(|at| tensors.get(at).copied());
            let is_natural = |position: i64| {
                let made_anew = bases.as_ref().and_then(|bases| bases.get(usize::try_from(position).ok()?).copied());
                made_anew.and_then(Base::read).is_none()
            };
            if let Some(tensor) = tensor.filter(|_| is_natural(position)) {
                self.note_shown(tensor, position, &results.values);
                views.extend(usize::try_from(position).ok().map(|at| (tensor, at)));
            }
        }
        let made_from = self.made_from(&views, made.len());
        if made_from.iter().any(|other| *other >= 0) {
            ops::MADE_FROM.set(new, &made_from);
        }
        Ok(results.values)
    }

    /// Determines how one tensor output is created; adds the function result that it needs.
    fn output(&mut self, exit: Op, tensor: Value, position: usize, results: &mut Results) -> Result<Output, PassError> {
        let object = self.aliasing.object(tensor);
        if let Some(arg) = object.arg_index() {
            return Ok(Output::Arg(arg));
        }
        if let Some(&first) = results.first.get(&object) {
            return Ok(Output::Same(first));
        }
        results.first.insert(object, position);
        let ty = tensor.ty();
        let maker = tensor.def().unwrap_or(exit);
        let argument = self.aliasing.argument(tensor);
        let number = self.aliasing.storage(tensor);
        let storage = &self.aliasing.storages[number];
        let root = argument.map_or(storage.roots[0], |arg| self.argument_root(number, arg));
        let other = || PassError::refusal(maker, ALIASING, "an output shows memory of another element type");
        let is_other = ty.element() != root.ty().element();
        if is_other && (argument.is_some() || reals_of(&[ty.element(), root.ty().element()]).is_none()) {
            return Err(other());
        }
        if let Some(arg) = argument {
            return Ok(Output::ArgView(arg, shown(ty)));
        }
        let whole = shown(root.ty());
        if !whole.offset.is(0) {
            return Err(PassError::refusal(maker, ALIASING, "an output shows fresh memory that does not start at its tensor"));
        }
        let index = match results.of_storage.get(&number) {
            Some((index, element)) if *element == ty.element() => *index,
            Some(_) => return Err(other()),
            None => {
                let value = self.read(exit, root)?;
                let shown =
                    if is_other { self.in_other_elements(value, &whole, ty.element()) } else { Some((value, whole.strides.clone())) };
                let (value, strides) = shown.ok_or_else(other)?;
                results.push(value, Attr::dict(self.b.ctx(), &[ops::STRIDES.dims().with(self.b.ctx(), &strides)]));
                results.versions.push(0);
                let index = results.values.len() - 1;
                results.of_storage.insert(number, (index, ty.element()));
                index
            }
        };
        // An output that covers a whole result which is not itself returned, and that is not a view in eager, can be that result: for
        // example `detach()` of a fresh tensor.
        let is_no_view = results.recorded.get(position).is_some_and(|base| *base == Some(Base::None));
        let stands_for_it = !is_other && is_no_view && shown(ty) == whole && results.objects.insert(root);
        Ok(if object == root || stands_for_it { Output::Result(index) } else { Output::ResultView(index, shown(ty)) })
    }

    /// Returns the root viewed as complex numbers, or as real ones, with its strides.
    fn in_other_elements(&self, root: Value, whole: &Window, element: Type) -> Option<(Value, Vec<Dim>)> {
        if root.ty().element().is_complex() {
            return Some((as_reals(&self.b, root, &self.scope), in_reals(whole, root.ty().element())?.strides));
        }
        let value = whole.is_contiguous_in(&self.scope).ok()?.then(|| paired(&self.b, root, element, &self.scope))??;
        let strides = row_major_in(&value.ty().dims(), &self.scope).ok()?;
        Some((value, strides))
    }

    /// The root of a storage that is this argument.
    fn argument_root(&self, storage: usize, argument: usize) -> Value {
        let roots = &self.aliasing.storages[storage].roots;
        roots.iter().copied().find(|root| root.arg_index() == Some(argument)).unwrap_or(roots[0])
    }

    /// Adds one result for each argument that must be written to make all mutations visible. Returns the number of writes to each storage,
    /// with one of the arguments that share its version counter.
    fn mutations(&mut self, old: Op, exit: Op, results: &mut Results) -> Result<Vec<(usize, i64)>, PassError> {
        let mut written = Vec::new();
        for number in 0..self.aliasing.storages.len() {
            let storage = &self.aliasing.storages[number];
            let (count, roots) = (storage.bumps, storage.roots.clone());
            if !storage.mutated || roots.iter().any(|root| root.arg_index().is_none()) {
                continue;
            }
            let number = self.base(old, number)?;
            let covering = self.bases[number].as_ref().map(|base| base.covering.clone()).unwrap_or_default();
            for (i, root) in covering.into_iter().map(|i| roots[i]).enumerate() {
                let index = root.arg_index().ok_or_else(|| outside(old))?;
                let value = self.read(exit, root)?;
                results.push(value, Attr::dict(self.b.ctx(), &[ops::MUTATES.with(self.b.ctx(), index as i64)]));
                if i == 0 {
                    written.push((index, count));
                }
            }
        }
        Ok(written)
    }

    /// The attributes of the arguments: their layouts, the importer's attributes, and the number of writes from `written` for arguments
    /// without a recorded number.
    fn argument_attrs(&self, old: Op, written: &[(usize, i64)]) -> Attr {
        let ctx = self.b.ctx();
        let noted: Vec<Attr> = old.optional(func::ARG_ATTRS).unwrap_or_default();
        let args = old.body().map(Block::args).unwrap_or_default();
        let attrs: Vec<_> = args
            .iter()
            .enumerate()
            .map(|(i, arg)| {
                let window = shown(arg.ty());
                let own = [ops::STRIDES.dims().with(ctx, &window.strides), ops::OFFSET.dim().with(ctx, &window.offset)];
                let mut entries = noted.get(i).map(|attrs| attrs.entries()).unwrap_or_default();
                entries.retain(|(name, _)| own.iter().all(|(new, _)| name != new));
                let mut attrs = [&by_ref(&entries)[..], &own].concat();
                let counted = written.iter().find(|(argument, _)| *argument == i);
                if let Some(&(_, count)) = counted.filter(|_| attrs.iter().all(|(name, _)| *name != ops::VERSION_BUMPS.name())) {
                    attrs.push(ops::VERSION_BUMPS.with(ctx, count));
                }
                Attr::dict(ctx, &attrs)
            })
            .collect();
        Attr::array(ctx, &attrs)
    }
}

/// The returned tensor that an output is, if it is created as a view.
fn tensor_of(entries: &[Output], made: &[Output], position: usize) -> Option<usize> {
    match (entries.get(position)?, made.get(position)?) {
        (Output::Result(number), Output::ArgView(..) | Output::ResultView(..)) => Some(*number),
        _ => None,
    }
}

impl Results {
    fn push(&mut self, value: Value, attrs: Attr) {
        self.values.push(value);
        self.attrs.push(attrs);
    }
}
