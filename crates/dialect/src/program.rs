//! A module as a program: named functions that are called from outside, and kernels that they share.
//!
//! ```mlir
//! module {
//!   func.func @forward(…) attributes {dynamo.entry} { … dynamo.launch @kernels::@exp_0(…) … }
//!   func.func @backward(…) attributes {dynamo.entry} { … dynamo.launch @kernels::@exp_0(…) … }
//!   module @kernels { func.func @exp_0(…) attributes {dynamo.kernel} { … } }
//! }
//! ```
//! Each entry has its own plan, workspace and outputs. Functions without `dynamo.entry` are called by entries.

use std::collections::HashMap;

use crate::{
    ffi,
    ir::{Attr, Block, Op, Type, Value},
    ops,
    upstream::{MODULE, func},
};

/// The module of kernels.
pub const KERNELS: &str = "kernels";

/// Writes on a module that its text is of this version's format.
pub fn write_format(module: Op) {
    // SAFETY: the context is alive.
    let format = Attr::from_raw(unsafe { ffi::dynamoFormatAttrGet(module.ctx().raw()) });
    ops::FORMAT.set(module, format);
}

/// The functions with `dynamo.entry`, in the order of the text.
#[must_use]
pub fn entries(module: Op) -> Vec<Op> {
    let ops = module.body().map(Block::ops).unwrap_or_default();
    ops.into_iter().filter(|op| op.is(func::FUNC) && ops::ENTRY.is_on(*op)).collect()
}

/// `module @kernels`.
#[must_use]
pub fn kernels_module(module: Op) -> Option<Op> {
    module.body()?.ops().into_iter().find(|op| op.is(MODULE) && op.symbol().as_deref() == Some(KERNELS))
}

/// The functions in `module @kernels`, including declarations.
#[must_use]
pub fn kernels(module: Op) -> Vec<Op> {
    kernels_module(module).and_then(Op::body).map(Block::ops).unwrap_or_default()
}

/// The name given to a kernel where its own does not matter.
const NEUTRAL: &str = "k";

/// The computation of a kernel without its name and locations: kernels of equal form are the same kernel.
///
/// It consists of types and attributes of one context and is valid as long as the context is alive; use [`kernel_text`] for longer.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct KernelForm(Vec<Part>);

/// An operation: its name, the numbers of its operands, its types (of the results, then of its blocks' arguments) and its attributes.
type Part = (String, Vec<usize>, Vec<Type>, Vec<(String, Attr)>);

impl KernelForm {
    /// The form of a function.
    #[must_use]
    pub fn of(kernel: Op) -> Self {
        let mut form = Self(Vec::new());
        form.add(kernel, &mut HashMap::new());
        form
    }

    fn add(&mut self, op: Op, numbers: &mut HashMap<Value, usize>) {
        let operands = op.operands().iter().map(|operand| numbers.get(operand).copied().unwrap_or(usize::MAX)).collect();
        let attrs = op.attrs().into_iter().filter(|(name, _)| name != "sym_name").collect();
        let blocks: Vec<Block> = (0..op.num_regions()).flat_map(|region| op.region(region).blocks()).collect();
        let values: Vec<Value> = op.results().into_iter().chain(blocks.iter().flat_map(|block| block.args())).collect();
        let types = values.iter().map(|value| value.ty()).collect();
        for value in values {
            numbers.insert(value, numbers.len());
        }
        self.0.push((op.name(), operands, types, attrs));
        for block in blocks {
            // Marks the end of the block.
            self.0.push((String::new(), vec![block.ops().len()], Vec::new(), Vec::new()));
            block.ops().into_iter().for_each(|inner| self.add(inner, numbers));
        }
    }
}

/// The same as text, which outlives the context: kernels of equal text, for the same target, are the same kernel.
#[must_use]
pub fn kernel_text(kernel: Op) -> String {
    let name = kernel.symbol().unwrap_or_default();
    rename(kernel, NEUTRAL);
    let text = kernel.text();
    rename(kernel, &name);
    text
}

/// Renames a function that nothing refers to yet.
pub fn rename(function: Op, name: &str) {
    function.set_attr("sym_name", Attr::str(function.ctx(), name));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Session, context::module_op};

    #[test]
    fn kernels_that_compute_the_same_have_one_form() {
        let session = Session::new();
        let kernel =
            |name: &str, body: &str| format!("func.func @{name}(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {{ {body} }}");
        let sub = |x: &str, y: &str| format!("%0 = dynamo.sub %{x}, %{y} : tensor<4xf32> return %0 : tensor<4xf32>");
        let negated = "%0 = dynamo.neg %a : tensor<4xf32> return %0 : tensor<4xf32>".to_owned();
        let text = [kernel("f", &sub("a", "b")), kernel("g", &sub("a", "b")), kernel("h", &sub("b", "a")), kernel("i", &negated)].concat();
        let module = session.parse(&format!("module {{ module @kernels {{ {text} }} }}")).expect("parses");
        let functions = kernels(module_op(&module));
        let forms: Vec<KernelForm> = functions.iter().map(|&function| KernelForm::of(function)).collect();
        assert_eq!(forms[0], forms[1]);
        assert!(forms[0] != forms[2] && forms[0] != forms[3]);
        let texts: Vec<String> = functions.iter().map(|&function| kernel_text(function)).collect();
        assert_eq!(texts[0], texts[1]);
        assert!(texts[0] != texts[2] && texts[0] != texts[3]);
        assert_eq!(functions[1].symbol().as_deref(), Some("g"));
    }

    #[test]
    fn what_is_inside_counts() {
        let session = Session::new();
        let looped = |name: &str, step: &str| {
            format!(
                "func.func @{name}(%m: memref<4xf32>, %x: f32) {{ %z = arith.constant 0 : index %n = arith.constant 4 : index \
                 %s = arith.constant {step} : index scf.for %i = %z to %n step %s {{ memref.store %x, %m[%i] : memref<4xf32> }} return }}"
            )
        };
        let text = [looped("f", "1"), looped("g", "1"), looped("h", "2")].concat();
        let module = session.parse(&format!("module {{ module @kernels {{ {text} }} }}")).expect("parses");
        let forms: Vec<KernelForm> = kernels(module_op(&module)).into_iter().map(KernelForm::of).collect();
        assert!(forms[0] == forms[1] && forms[0] != forms[2]);
    }
}
