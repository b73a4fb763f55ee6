//! `module @kernels`: one function for each distinct kernel.
//!
//! Two kernels are equal if they have the same [form](KernelForm). Arguments are in the order of first use and operations in graph order,
//! so equal layers of a model yield equal kernels.

use std::collections::{HashMap, HashSet};

use dynamlir_dialect::{
    ir::{Attr, Block, Builder, Op},
    program::{KERNELS, KernelForm, kernels_module, rename},
    upstream::MODULE,
};

pub(super) struct Kernels {
    module: Op,
    block: Option<Block>,
    by_form: HashMap<KernelForm, String>,
    names: HashSet<String>,
    /// Number of functions that were added.
    pub(super) outlined: usize,
    /// Number of functions that already existed.
    pub(super) merged: usize,
}

impl Kernels {
    /// The symbol of a function that does not have a name yet.
    pub(super) const PLACEHOLDER: &str = "kernel";

    /// Collects the existing kernels of a module.
    pub(super) fn of(module: Op) -> Self {
        let mut kernels = Self { module, block: None, by_form: HashMap::new(), names: HashSet::new(), outlined: 0, merged: 0 };
        kernels.block = kernels_module(module).and_then(Op::body);
        for function in kernels.block.map(Block::ops).unwrap_or_default() {
            if let Some(name) = function.symbol() {
                kernels.by_form.insert(KernelForm::of(function), name.clone());
                kernels.names.insert(name);
            }
        }
        kernels
    }

    /// Inserts a detached function named [`Self::PLACEHOLDER`] unless an equal one exists; returns the name of the function that remains.
    pub(super) fn intern(&mut self, function: Op, base: &str) -> String {
        let form = KernelForm::of(function);
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
        rename(function, &name);
        self.block().append(function);
        self.by_form.insert(form, name.clone());
        self.outlined += 1;
        name
    }

    /// The body of `module @kernels`, which is created for the first kernel.
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
