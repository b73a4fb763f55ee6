//! `module @kernels`: one function for each distinct kernel.
//!
//! Two kernels are equal if they are made of the same operations on the same types, names and locations left out.
//! Arguments stand in the order of first use and operations in graph order, so equal layers of a model are equal.

use std::collections::{HashMap, HashSet};

use dynamlir_dialect::{
    ir::{Attr, Block, Builder, Op, Type, Value},
    program::{KERNELS, kernels_module},
    upstream::MODULE,
};

pub(super) struct Kernels {
    module: Op,
    block: Option<Block>,
    by_form: HashMap<Form, String>,
    names: HashSet<String>,
    /// Functions that were added.
    pub(super) outlined: usize,
    /// Functions that were there already.
    pub(super) merged: usize,
}

/// A kernel without names and locations: its operations, by name, numbers of operands, types of results, attributes.
type Form = Vec<(String, Vec<usize>, Vec<Type>, Vec<(String, Attr)>)>;

fn form(function: Op) -> Form {
    let mut numbers: HashMap<Value, usize> = HashMap::new();
    let mut form = Vec::new();
    let mut add = |op: Op, values: Vec<Value>| {
        let operands = op.operands().iter().map(|operand| numbers.get(operand).copied().unwrap_or(usize::MAX)).collect();
        let results = op.results().iter().map(|result| result.ty()).collect();
        let attrs = op.attrs().into_iter().filter(|(name, _)| name != "sym_name").collect();
        for value in values {
            let next = numbers.len();
            numbers.insert(value, next);
        }
        form.push((op.name(), operands, results, attrs));
    };
    let body = function.body();
    add(function, body.map(Block::args).unwrap_or_default());
    for op in body.map(Block::ops).unwrap_or_default() {
        add(op, op.results());
    }
    form
}

impl Kernels {
    /// The symbol of a function that has no name yet.
    pub(super) const PLACEHOLDER: &str = "kernel";

    /// The kernels that a module has already.
    pub(super) fn of(module: Op) -> Self {
        let mut kernels = Self { module, block: None, by_form: HashMap::new(), names: HashSet::new(), outlined: 0, merged: 0 };
        kernels.block = kernels_module(module).and_then(Op::body);
        for function in kernels.block.map(Block::ops).unwrap_or_default() {
            if let Some(name) = function.symbol() {
                kernels.by_form.insert(form(function), name.clone());
                kernels.names.insert(name);
            }
        }
        kernels
    }

    /// Takes a detached function named [`Self::PLACEHOLDER`]; returns the name of the one that stays.
    pub(super) fn intern(&mut self, function: Op, base: &str) -> String {
        let form = form(function);
        if let Some(name) = self.by_form.get(&form) {
            function.erase();
            self.merged += 1;
            return name.clone();
        }
        let mut number = 0;
        let name = loop {
            let name = format!("{base}_{number}");
            if self.names.insert(name.clone()) {
                break name;
            }
            number += 1;
        };
        function.set_attr("sym_name", Attr::str(function.ctx(), &name));
        self.block().append(function);
        self.by_form.insert(form, name.clone());
        self.outlined += 1;
        name
    }

    /// The body of `module @kernels`, which the first kernel makes.
    fn block(&mut self) -> Block {
        let module = self.module;
        *self.block.get_or_insert_with(|| {
            let ctx = module.ctx();
            let (_, block) = match module.body() {
                Some(body) => {
                    Builder::at_end(body, module.loc()).op_with_body(MODULE, &[], &[], &[("sym_name", Attr::str(ctx, KERNELS))], &[])
                }
                None => (module, Block::new(&[])),
            };
            block
        })
    }
}
