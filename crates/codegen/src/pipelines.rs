//! The stages from captured graph to LLVM dialect, in order, and the passes that lead from one to the next.
//!
//! Every stage is text and every pass can run separately, so a pipeline string is enough to replay a step by hand: `dynamlir-opt
//! --pass-pipeline='…' dump.mlir`.

use std::sync::Once;

use dynamlir_dialect::pass::{register, register_pipeline};

use crate::{attach_target, print_llvm_ir, vector_functions};

/// The part of the module that a stage's passes work on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The whole module, graph function included.
    Graph,
    /// Only the nested `module @kernels`.
    Kernels,
}

/// A point at which the module has a written contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Its name, as in dump file names.
    pub name: &'static str,
    /// The part that the passes work on.
    pub scope: Scope,
    /// The pass that checks if a module is at this stage, if there is one.
    pub contract: Option<&'static str>,
    /// The passes that lead here from the stage before, comma separated; empty for the first.
    pub passes: &'static str,
}

/// Leads from primitives on tensors to buffers.
///
/// - Canonicalizations process everything once, here and below: a second round costs as much and finds nothing.
/// - `eliminate-empty-tensors` makes results be computed in their destination.
/// - The second canonicalization removes copies of a buffer onto itself, which only CSE exposes.
/// - Row temporaries go to the stack; `buffer-loop-hoisting` moves them out of the row loop and stops at the parallel loop, since threads
///   must not share them. The limit is well below the smallest thread stacks (512 KiB): a kernel may have two or three such buffers.
const BUFFERIZE: &str = "eliminate-empty-tensors,empty-tensor-to-alloc-tensor,\
    one-shot-bufferize{bufferize-function-boundaries=0},canonicalize{max-iterations=1},cse,canonicalize{max-iterations=1},\
    func.func(promote-buffers-to-stack{max-alloc-size-in-bytes=131072 max-rank-of-allocated-memref=8},\
    buffer-loop-hoisting),canonicalize{max-iterations=1}";

/// Leads from buffers to the LLVM dialect.
///
/// The order is constrained:
/// - `dynamo-loop-locations` first, so that a parsed dump and the module it was printed from are lowered to equal text;
/// - `dynamo-prefetch` while there are still views, which show how a loop traverses a kernel's arguments;
/// - `dynamo-vector-widths` while loops are loops, and their bodies are a few operations;
/// - `scf-forall-to-parallel` before `convert-scf-to-cf`, or loops silently become serial;
/// - `dynamo-expand-copies` before the loops, since it creates one more operation to expand, and before `dynamo-transpose-tiles`, which may
///   find that operation transposed;
/// - `dynamo-block-sums` while sums are one operation, and after `dynamo-prefetch`, which looks for views in the loops that are marked;
/// - `dynamo-fork-if` right after OpenMP regions exist, before anything is lowered that computes with sizes;
/// - `dynamo-hoist-scratch` after OpenMP regions exist, followed by a canonicalization, which dissolves the emptied `memref.alloca_scope`s:
///   they may not contain branches;
/// - `dynamo-edge-math` before `dynamo-approximate-math`, which expands the `exp` it creates;
/// - `dynamo-vector-functions` after `dynamo-edge-math`, which creates `tan`s, and before `dynamo-legalize-arith` and `convert-scf-to-cf`,
///   which lower the functions that it defines;
/// - `dynamo-approximate-math` before `dynamo-legalize-arith`, which handles the one-instruction math it leaves;
/// - `dynamo-narrow` before `dynamo-legalize-arith`, which turns rounding into integer arithmetic;
/// - `dynamo-legalize-arith` before `arith-expand`, which would turn NaN-propagating maxima into chains of compares;
/// - `dynamo-bf16-as-bits` after `dynamo-legalize-arith`, after which `bf16` is only moved;
/// - `convert-math-to-libm` before `convert-math-to-llvm`, which has inexact `expm1` and `log1p`;
/// - `dynamo-mark-backward` while strides are types, `dynamo-signed-addresses` before any pass may draw conclusions from flags;
/// - `convert-func-to-llvm` before `convert-openmp-to-llvm`, which converts functions too, without bare pointers.
const TO_LLVM: &str = "dynamo-loop-locations,dynamo-prefetch,dynamo-mark-backward,dynamo-expand-copies,dynamo-transpose-tiles,dynamo-block-sums,\
    func.func(convert-linalg-to-loops),canonicalize{max-iterations=1},cse,dynamo-vector-widths,scf-forall-to-parallel,convert-scf-to-openmp,\
    dynamo-fork-if,dynamo-hoist-scratch,dynamo-edge-math,dynamo-approximate-math,dynamo-vector-functions,dynamo-narrow,dynamo-legalize-arith,dynamo-bf16-as-bits,dynamo-bools-as-bytes,canonicalize{max-iterations=1},\
    expand-strided-metadata,lower-affine,canonicalize{max-iterations=1},cse,convert-scf-to-cf,arith-expand{include-bf16=1},\
    convert-vector-to-llvm,convert-math-to-libm,convert-math-to-llvm,\
    convert-func-to-llvm{use-bare-ptr-memref-call-conv=1},\
    finalize-memref-to-llvm,convert-arith-to-llvm,convert-ub-to-llvm,convert-cf-to-llvm,convert-index-to-llvm,\
    convert-openmp-to-llvm,reconcile-unrealized-casts,dynamo-signed-addresses,canonicalize{max-iterations=1},dynamo-annotate-branches,dynamo-alias-scopes";

const fn graph(name: &'static str, contract: Option<&'static str>, passes: &'static str) -> Stage {
    Stage { name, scope: Scope::Graph, contract, passes }
}

const fn kernels(name: &'static str, passes: &'static str) -> Stage {
    Stage { name, scope: Scope::Kernels, contract: None, passes }
}

/// All stages, first to last. They are identified by their names; a stage's number is its index here.
pub const STAGES: &[Stage] = &[
    graph("aten", None, ""),
    graph("functional", Some("dynamo-verify-functional"), "dynamo-functionalize"),
    graph("prims", Some("dynamo-verify-prims"), "dynamo-autodiff,dynamo-decompose,dynamo-partition"),
    graph("kernels", Some("dynamo-verify-kernels"), "dynamo-select,dynamo-fuse"),
    graph("planned", None, "dynamo-plan"),
    graph("linalg", None, "dynamo-to-linalg"),
    kernels("scheduled", "dynamo-schedule,canonicalize{max-iterations=1},cse"),
    kernels("bufferized", BUFFERIZE),
    kernels("llvm", TO_LLVM),
];

impl Stage {
    /// The stage with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        STAGES.iter().find(|stage| stage.name == name)
    }

    /// The stage with this name, which is hard-coded.
    ///
    /// # Panics
    /// If there is no such stage.
    pub fn of(name: &str) -> &'static Self {
        Self::named(name).unwrap_or_else(|| panic!("there is no stage {name}"))
    }

    /// The first stage.
    pub fn first() -> &'static Self {
        &STAGES[0]
    }

    /// Its index among all stages.
    pub fn number(&self) -> usize {
        STAGES.iter().position(|stage| stage.name == self.name).unwrap_or(STAGES.len())
    }

    /// Returns true if it comes after `other`.
    pub fn is_after(&self, other: &Self) -> bool {
        self.number() > other.number()
    }

    /// The stages after this one, up to and including `to`.
    pub fn up_to(&self, to: &Self) -> &'static [Self] {
        let (from, to) = (self.number() + 1, to.number() + 1);
        STAGES.get(from..to).unwrap_or_default()
    }

    /// `07-bufferized`, for dump file names.
    pub fn label(&self) -> String {
        format!("{:02}-{}", self.number(), self.name)
    }

    /// The pipeline that leads here, for the module with graph and kernels. `None` for the first stage.
    pub fn pipeline(&self) -> Option<String> {
        (!self.passes.is_empty()).then(|| format!("builtin.module({})", self.on_module()))
    }

    /// The passes that lead here, as they run on that module.
    fn on_module(&self) -> String {
        match self.scope {
            Scope::Graph => self.passes.to_owned(),
            Scope::Kernels => format!("builtin.module({})", self.passes),
        }
    }

    /// The pipeline that leads here if the kernels are a module of their own.
    pub fn kernels_pipeline(&self) -> Option<String> {
        (self.scope == Scope::Kernels).then(|| format!("builtin.module({})", self.passes))
    }
}

/// Registers the passes that pipelines need. Safe to call more than once.
pub fn register_passes() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| register(&vector_functions::PASS));
}

/// Registers the pipelines, and the passes that are not part of one, for `dynamlir-opt` and for `mlir-opt` with the plugin:
/// `dynamlir-linalg-to-scheduled` is one step, as between two dumps; `dynamlir-to-scheduled` is the whole way from stage 00. Safe to call
/// more than once.
pub fn register_all() {
    static ONCE: Once = Once::new();
    register_passes();
    ONCE.call_once(|| {
        [&attach_target::PASS, &print_llvm_ir::PASS].into_iter().for_each(register);
        let mut all = Vec::new();
        for pair in STAGES.windows(2) {
            let [from, to] = [&pair[0], &pair[1]];
            let (step, first) = (to.on_module(), &STAGES[0]);
            register_pipeline(
                &format!("dynamlir-{}-to-{}", from.name, to.name),
                &format!("One step, {} to {}", from.label(), to.label()),
                &step,
                &[],
            );
            all.push(step);
            register_pipeline(
                &format!("dynamlir-to-{}", to.name),
                &format!("The way from {} to {}", first.label(), to.label()),
                &all.join(","),
                &[],
            );
        }
    });
}

/// One pipeline from a stage (exclusive) to another (inclusive), for a kernel module of its own.
pub fn kernels_between(from: &str, to: &str) -> Option<String> {
    let stages = Stage::named(from)?.up_to(Stage::named(to)?).iter();
    let passes: Vec<_> = stages.filter(|stage| stage.scope == Scope::Kernels).map(|stage| stage.passes).collect();
    (!passes.is_empty()).then(|| format!("builtin.module({})", passes.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_known_by_name_and_numbered_by_place() {
        for (index, stage) in STAGES.iter().enumerate() {
            assert_eq!((stage.number(), Stage::named(stage.name)), (index, Some(stage)), "a name stands for one stage");
        }
        assert_eq!(Stage::of("llvm").label(), "08-llvm");
        assert!(Stage::of("prims").is_after(Stage::first()));
        let between: Vec<_> = Stage::of("kernels").up_to(Stage::of("linalg")).iter().map(|stage| stage.name).collect();
        assert_eq!(between, ["planned", "linalg"]);
        assert!(Stage::of("llvm").up_to(Stage::of("linalg")).is_empty());
    }

    #[test]
    fn kernel_stages_run_on_the_nested_module() {
        let stage = Stage::named("scheduled").expect("exists");
        assert!(stage.pipeline().expect("has passes").starts_with("builtin.module(builtin.module(dynamo-schedule"));
        assert!(kernels_between("linalg", "llvm").expect("has passes").contains("one-shot-bufferize"));
        assert!(Stage::named("aten").expect("exists").pipeline().is_none());
    }
}
