//! Wrappers that take a kernel's arguments as one array.
//!
//! A kernel takes a bare pointer for each of its buffers, and then the sizes that are not in their types. The runtime calls all kernels in
//! one way: through `void <kernel>__packed(ptr row)`, which loads these words and calls the kernel (LLVM inlines it).

use inkwell::{AddressSpace, builder::BuilderError, context::Context, module::Module, values::FunctionValue};

use crate::error::Error;

/// The suffix of a wrapper's name.
pub const SUFFIX: &str = "__packed";

/// Adds a wrapper for each named function.
pub fn add_wrappers<'ctx>(context: &'ctx Context, module: &Module<'ctx>, kernels: &[String]) -> Result<(), Error> {
    for name in kernels {
        if module.get_function(&format!("{name}{SUFFIX}")).is_some() {
            return Err(Error::Verification(format!("a function has the name of the entry of kernel {name}")));
        }
        let kernel = module.get_function(name).ok_or_else(|| Error::Verification(format!("kernel {name} was lost in translation")))?;
        wrap(context, module, name, kernel).map_err(|error| Error::Verification(error.to_string()))?;
    }
    Ok(())
}

fn wrap<'ctx>(context: &'ctx Context, module: &Module<'ctx>, name: &str, kernel: FunctionValue<'ctx>) -> Result<(), BuilderError> {
    let pointer = context.ptr_type(AddressSpace::default());
    let wrapper = module.add_function(&format!("{name}{SUFFIX}"), context.void_type().fn_type(&[pointer.into()], false), None);
    let builder = context.create_builder();
    builder.position_at_end(context.append_basic_block(wrapper, "entry"));
    let mut args = Vec::new();
    for ((i, taken), row) in (0..).zip(kernel.get_params()).zip(wrapper.get_nth_param(0).into_iter().cycle()) {
        let index = context.i64_type().const_int(i, false);
        // SAFETY: the caller's row has one entry per parameter; the index is below their number.
        let slot = unsafe { builder.build_gep(pointer, row.into_pointer_value(), &[index], "slot")? };
        args.push(builder.build_load(taken.get_type(), slot, "argument")?.into());
    }
    builder.build_call(kernel, &args, "")?;
    builder.build_return(None)?;
    Ok(())
}
