//! The LLVM dialect.

use super::segments;
use crate::{
    ffi,
    ir::{Attr, Builder, Ctx, Op, Type, Value},
};

names! {
    ADD = "llvm.add";
    BR = "llvm.br";
    CALL_INTRINSIC = "llvm.call_intrinsic";
    COND_BR = "llvm.cond_br";
    EXTRACTVALUE = "llvm.extractvalue";
    FUNC = "llvm.func";
    GETELEMENTPTR = "llvm.getelementptr";
    INTR_CEIL = "llvm.intr.ceil";
    INTR_COPYSIGN = "llvm.intr.copysign";
    INTR_FABS = "llvm.intr.fabs";
    INTR_FLOOR = "llvm.intr.floor";
    INTR_FMA = "llvm.intr.fma";
    INTR_MAXIMUM = "llvm.intr.maximum";
    INTR_MAXNUM = "llvm.intr.maxnum";
    INTR_MINIMUM = "llvm.intr.minimum";
    INTR_MINNUM = "llvm.intr.minnum";
    INTR_PREFETCH = "llvm.intr.prefetch";
    INTR_ROUNDEVEN = "llvm.intr.roundeven";
    INTR_SQRT = "llvm.intr.sqrt";
    INTR_TRUNC = "llvm.intr.trunc";
    INTTOPTR = "llvm.inttoptr";
    LOAD = "llvm.load";
    MUL = "llvm.mul";
    SHL = "llvm.shl";
    STORE = "llvm.store";
    SUB = "llvm.sub";
}

/// The attribute of a loop with hints for LLVM.
pub const LOOP_ANNOTATION: &str = "llvm.loop_annotation";
/// The attribute of an argument: memory reached through it is not reached through anything else.
pub const NOALIAS: &str = "llvm.noalias";
/// The attribute of an argument: its address is a multiple of this.
pub const ALIGN: &str = "llvm.align";
/// The attribute of an argument: nothing is written through it.
pub const READONLY: &str = "llvm.readonly";
/// The attribute of a function: it touches no memory.
pub const READNONE: &str = "llvm.readnone";

/// The fast-math flags of an operation of `arith` or `math` in the form of the LLVM dialect, with `nsz` if requested.
pub fn fastmath(op: Op, no_signed_zeros: bool) -> Attr {
    let flags = op.attr("fastmath").map_or(mlir_sys::MlirAttribute { ptr: std::ptr::null() }, Attr::raw);
    // SAFETY: the attribute is null or live as long as its context.
    Attr::from_raw(unsafe { ffi::dynamoFastmathAttrToLLVM(op.ctx().raw(), flags, no_signed_zeros) })
}

/// Scope `index` of the domain with this name.
pub fn alias_scope(ctx: Ctx, domain: &str, index: usize) -> Attr {
    let (name, domain) = (Attr::str(ctx, &format!("{domain}.{index}")), Attr::str(ctx, domain));
    Attr::known(ctx, &format!("#llvm.alias_scope<id = {name}, domain = #llvm.alias_scope_domain<id = {domain}>>"))
}

impl Builder {
    /// `llvm.call_intrinsic` of a function with one result of its operands' type, which is part of its name.
    pub fn llvm_call_intrinsic(&self, intrinsic: &str, operands: &[Value], ty: Type) -> Value {
        self.llvm_call_instruction(&format!("{intrinsic}.{ty}"), operands, ty)
    }
    /// `llvm.call_intrinsic` of a processor-specific instruction, given by its full name including types.
    pub fn llvm_call_instruction(&self, intrinsic: &str, operands: &[Value], ty: Type) -> Value {
        let ctx = self.ctx();
        let attrs =
            [("intrin", Attr::str(ctx, intrinsic)), ("op_bundle_sizes", Attr::i32s(ctx, &[])), segments(ctx, &[operands.len() as i32, 0])];
        self.value(CALL_INTRINSIC, operands, ty, &attrs)
    }
    /// `llvm.extractvalue` of one field.
    pub fn llvm_extractvalue(&self, from: Value, at: i64, ty: Type) -> Value {
        self.value(EXTRACTVALUE, &[from], ty, &[("position", Attr::i64s(self.ctx(), &[at]))])
    }
    /// `llvm.inttoptr`.
    pub fn llvm_inttoptr(&self, address: Value) -> Value {
        self.value(INTTOPTR, &[address], Type::llvm_pointer(self.ctx()), &[])
    }
    /// `llvm.intr.prefetch` of data into all caches.
    pub fn llvm_prefetch(&self, address: Value, writes: bool) -> Op {
        let word = |name: &'static str, value: i64| (name, Attr::int_of(Type::int(self.ctx(), 32), value));
        self.op(INTR_PREFETCH, &[address], &[], &[word("rw", writes.into()), word("hint", 3), word("cache", 1)])
    }
}
