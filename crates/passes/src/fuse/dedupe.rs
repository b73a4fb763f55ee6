//! `module @kernels`: one function for each distinct kernel.
//!
//! Two kernels are equal if their text is, names and locations left out. Arguments stand in the order of first use
//! and operations in graph order, so equal layers of a model give equal text.

use std::collections::{HashMap, HashSet};

use dynamlir_dialect::ir::{Attr, Block, Builder, Op};

pub(super) struct Kernels {
    module: Op,
    block: Option<Block>,
    by_text: HashMap<String, String>,
    names: HashSet<String>,
}

impl Kernels {
    /// The symbol of a function that has no name yet.
    pub(super) const PLACEHOLDER: &str = "kernel";

    /// The kernels that a module has already.
    pub(super) fn of(module: Op) -> Self {
        let mut kernels = Self { module, block: None, by_text: HashMap::new(), names: HashSet::new() };
        let inner = module.body().map(|body| body.ops()).unwrap_or_default();
        kernels.block = inner.iter().find(|op| op.is("builtin.module") && op.symbol().as_deref() == Some("kernels")).and_then(|op| op.body());
        for function in kernels.block.map(|block| block.ops()).unwrap_or_default() {
            if let Some(name) = function.symbol() {
                let copy = function.clone_detached();
                copy.set_attr("sym_name", Attr::str(copy.ctx(), Self::PLACEHOLDER));
                kernels.by_text.insert(copy.text(), name.clone());
                copy.erase();
                kernels.names.insert(name);
            }
        }
        kernels
    }

    /// Takes a detached function named [`Self::PLACEHOLDER`]; returns the name of the one that stays.
    pub(super) fn intern(&mut self, function: Op, base: &str) -> String {
        let text = function.text();
        if let Some(name) = self.by_text.get(&text) {
            function.erase();
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
        self.by_text.insert(text, name.clone());
        name
    }

    /// The body of `module @kernels`, which the first kernel makes.
    fn block(&mut self) -> Block {
        let module = self.module;
        *self.block.get_or_insert_with(|| {
            let ctx = module.ctx();
            let (_, block) = match module.body() {
                Some(body) => Builder::at_end(body, module.loc()).op_with_body("builtin.module", &[], &[], &[("sym_name", Attr::str(ctx, "kernels"))], &[]),
                None => (module, Block::new(&[])),
            };
            block
        })
    }
}
