//! Memory sharing between tensors: one scan over the function before it is rewritten.

use std::collections::{HashMap, HashSet};

use dynamlir_dialect::{
    ir::{Op, Type, Value},
    ops::{self, AtenOp},
    pass::PassError,
};
use dynamlir_shapes::Scope;

use super::{
    call,
    coordinates::{Window, canonical, shown},
};

/// Memory that tensors are windows of.
#[derive(Default)]
pub struct Storage {
    /// The tensor that the memory was created with; several for arguments that overlap.
    pub roots: Vec<Value>,
    /// All windows of it, each with its element type.
    pub windows: HashSet<(Window, Type)>,
    /// True if some operation writes to it.
    pub mutated: bool,
    /// Number of calls that write to it: eager bumps its version counter as many times.
    pub bumps: i64,
    /// True if some view may reach memory outside all roots, since its offset counts from the storage's start.
    pub absolute: bool,
    /// The element types in which it is viewed.
    pub elements: Vec<Type>,
}

impl Storage {
    /// Returns true if its contents are tracked through a base value. Otherwise every tensor is a separate value.
    pub fn is_tracked(&self) -> bool {
        self.mutated || self.absolute
    }

    /// Adds a tensor that views this storage.
    fn show(&mut self, tensor: Type) {
        self.windows.insert((canonical(&shown(tensor)), tensor.element()));
        if !self.elements.contains(&tensor.element()) {
            self.elements.push(tensor.element());
        }
    }
}

/// The aliasing of one function.
#[derive(Default)]
pub struct Aliasing {
    pub storages: Vec<Storage>,
    of: HashMap<Value, usize>,
    object: HashMap<Value, Value>,
    argument: HashMap<Value, usize>,
}

impl Aliasing {
    /// Scans the arguments and operations of a function at stage aten.
    pub fn scan(func: Op, args: &[Value], ops: &[AtenOp]) -> Result<Self, PassError> {
        let mut found = Self::default();
        found.scan_arguments(func, args)?;
        for &op in ops {
            found.scan_op(op)?;
        }
        Ok(found)
    }
    /// The storage of a tensor.
    pub fn storage(&self, value: Value) -> usize {
        self.of[&value]
    }
    /// The value that represents the Python object: an in-place operation returns its operand.
    pub fn object(&self, value: Value) -> Value {
        self.object.get(&value).copied().unwrap_or(value)
    }
    /// The argument that a tensor is, or is a view of.
    pub fn argument(&self, value: Value) -> Option<usize> {
        self.argument.get(&value).copied()
    }

    fn scan_arguments(&mut self, func: Op, args: &[Value]) -> Result<(), PassError> {
        let mut groups: HashMap<i64, Vec<Value>> = HashMap::new();
        let mut order = Vec::new();
        for (i, &arg) in args.iter().enumerate() {
            check_known(func, arg)?;
            // An argument without a storage number has its own storage.
            let key = ops::STORAGE.of_arg(func, i).unwrap_or(-1 - i as i64);
            groups.entry(key).or_insert_with(|| {
                order.push(key);
                Vec::new()
            });
            groups.entry(key).or_default().push(arg);
            self.argument.insert(arg, i);
        }
        for key in order {
            for part in overlapping(&groups[&key]) {
                let number = self.storages.len();
                self.of.extend(part.iter().map(|&arg| (arg, number)));
                let mut storage = Storage { roots: part, ..Storage::default() };
                for arg in storage.roots.clone() {
                    storage.show(arg.ty());
                }
                self.storages.push(storage);
            }
        }
        Ok(())
    }

    fn scan_op(&mut self, call: AtenOp) -> Result<(), PassError> {
        let op = call.op();
        let mutates = call::operand_list(call.mutates());
        let mut bumped = HashSet::new();
        for &operand in &mutates {
            let value = op.operand(operand);
            let storage = &mut self.storages[self.of[&value]];
            storage.mutated = true;
            storage.bumps += i64::from(bumped.insert(self.object.get(&value).copied().unwrap_or(value)));
        }
        let aliases = call.aliases().unwrap_or_else(|| vec![-1; op.num_results()]);
        let absolute = call.schema().starts_with("aten.as_strided.");
        for (result, alias) in op.results().into_iter().zip(aliases) {
            check_known(op, result)?;
            let Ok(operand) = usize::try_from(alias) else {
                self.of.insert(result, self.storages.len());
                let mut storage = Storage { roots: vec![result], ..Storage::default() };
                storage.show(result.ty());
                self.storages.push(storage);
                continue;
            };
            let source = op.operand(operand);
            let number = self.of[&source];
            self.of.insert(result, number);
            if let Some(&argument) = self.argument.get(&source) {
                self.argument.insert(result, argument);
            }
            if mutates.contains(&operand) && result.ty() == source.ty() {
                self.object.insert(result, self.object(source));
            }
            let storage = &mut self.storages[number];
            storage.show(result.ty());
            storage.absolute |= absolute;
        }
        Ok(())
    }
}

fn check_known(op: Op, value: Value) -> Result<(), PassError> {
    let ty = value.ty();
    if ty.is_mutable() && ty.window(&Scope::new()).is_some() {
        return Ok(());
    }
    Err(PassError::at(op, format!("expected a !dynamo.tensor that says its sizes and strides, got {ty}")))
}

/// Groups the tensors of one storage that may overlap. Tensors with different element types stay together, since their offsets count in
/// different units; so do tensors whose offset is an expression.
fn overlapping(args: &[Value]) -> Vec<Vec<Value>> {
    let element = args[0].ty().element();
    let windows: Option<Vec<_>> = args.iter().map(|arg| Some((*arg, shown(arg.ty()).known()?))).collect();
    let Some(mut sorted) = windows.filter(|_| args.iter().all(|arg| arg.ty().element() == element)) else {
        return vec![args.to_vec()];
    };
    sorted.sort_by_key(|(_, window)| window.offset);
    let mut parts: Vec<(i64, Vec<Value>)> = Vec::new();
    for (arg, window) in sorted {
        match parts.last_mut() {
            Some((end, part)) if window.offset < *end => {
                *end = window.end().max(*end);
                part.push(arg);
            }
            _ => parts.push((window.end(), vec![arg])),
        }
    }
    parts
        .into_iter()
        .map(|(_, mut part)| {
            part.sort_by_key(|arg| arg.arg_index());
            part
        })
        .collect()
}
