//! `gpu`, and `nvvm` for kernels that use NVIDIA's tensor cores.

use crate::ir::{Attr, Builder, Ctx, Op, Type, Value};

names! {
    BARRIER = "gpu.barrier";
    BINARY = "gpu.binary";
    BLOCK_ID = "gpu.block_id";
    CONVERT_TO_TF32 = "nvvm.convert.float.to.tf32";
    FUNC = "gpu.func";
    MMA_SYNC = "nvvm.mma.sync";
    MODULE = "gpu.module";
    RETURN = "gpu.return";
    SHUFFLE = "gpu.shuffle";
    THREAD_ID = "gpu.thread_id";
}

/// The type of a buffer in a block's shared memory.
pub fn shared_memory(shape: &[i64], element: Type) -> Type {
    Type::memref_in(shape, element, Attr::known(element.ctx(), "#gpu.address_space<workgroup>"))
}

/// The handler that selects a module's only object, regardless of the device.
pub fn select_object(ctx: Ctx) -> Attr {
    Attr::known(ctx, "#gpu.select_object")
}

/// `#gpu.object<…>`: assembly for one NVIDIA chip.
pub fn nvvm_assembly(ctx: Ctx, chip: &str, assembly: &str) -> Attr {
    let text = Attr::str(ctx, assembly);
    Attr::known(ctx, &format!("#gpu.object<#nvvm.target<chip = {}>, assembly = {text}>", Attr::str(ctx, chip)))
}

/// Marks a `gpu.func` that is launched.
pub const KERNEL: &str = "gpu.kernel";

impl Builder {
    /// `gpu.thread_id` or `gpu.block_id` along `x`, `y` or `z`.
    pub fn gpu_id(&self, name: &str, dimension: &str) -> Value {
        let dimension = Attr::known(self.ctx(), &format!("#gpu<dim {dimension}>"));
        self.value(name, &[], Type::index(self.ctx()), &[("dimension", dimension)])
    }
    /// `gpu.barrier`.
    pub fn gpu_barrier(&self) -> Op {
        self.op(BARRIER, &[], &[], &[])
    }
    /// `gpu.shuffle xor`: the value of the lane whose number is this lane's xor `distance`, and a flag that it is valid.
    pub fn gpu_shuffle_xor(&self, word: Value, distance: Value, width: Value) -> Op {
        let mode = Attr::known(self.ctx(), "#gpu<shuffle_mode xor>");
        self.op(SHUFFLE, &[word, distance, width], &[word.ty(), Type::int(self.ctx(), 1)], &[("mode", mode)])
    }
    /// `gpu.return`.
    pub fn gpu_return(&self) -> Op {
        self.op(RETURN, &[], &[], &[])
    }
    /// `nvvm.convert.float.to.tf32`, to nearest.
    pub fn nvvm_to_tf32(&self, x: Value) -> Value {
        let nearest = Attr::known(self.ctx(), "#nvvm.fp_rnd_mode<rna>");
        self.value(CONVERT_TO_TF32, &[x], Type::int(self.ctx(), 32), &[("rnd", nearest)])
    }
    /// `nvvm.mma.sync` with row-major left and column-major right fragments of 16 by `depth` by 8, whose element type has this name in PTX.
    /// Returns the four sums of each lane as one value.
    pub fn nvvm_mma_sync(&self, element: &str, depth: i64, left: &[Value], right: &[Value], sums: &[Value]) -> Value {
        let ctx = self.ctx();
        let element = Attr::known(ctx, &format!("#nvvm.mma_type<{element}>"));
        let counts = [left.len(), right.len(), sums.len()].map(|count| count as i32);
        let attrs = [
            ("layoutA", Attr::known(ctx, "#nvvm.mma_layout<row>")),
            ("layoutB", Attr::known(ctx, "#nvvm.mma_layout<col>")),
            ("multiplicandAPtxType", element),
            ("multiplicandBPtxType", element),
            super::segments(ctx, &counts),
            ("shape", Attr::known(ctx, &format!("#nvvm.shape<m = 16, n = 8, k = {depth}>"))),
        ];
        let types: Vec<_> = sums.iter().map(|sum| sum.ty()).collect();
        self.value(MMA_SYNC, &[left, right, sums].concat(), Type::llvm_struct(&types), &attrs)
    }
}
