//! Lowers whole kernels from stage 05 to an object, and checks the results.

use dynamlir_codegen::{
    KernelObject, Options, compile_kernels,
    pipelines::{Stage, kernels_between},
    target::{SimdLevel, host, simd_level},
};
use dynamlir_dialect::{Session, context::module_op, ops};

fn lower(text: &str) -> (String, KernelObject) {
    dynamlir_passes::register_all();
    dynamlir_codegen::pipelines::register_passes();
    let session = Session::new();
    let mut module = session.parse(text).expect("the kernel parses");
    ops::TARGET.set(module_op(&module), &host());
    let scheduling = Stage::named("scheduled").and_then(Stage::kernels_pipeline).expect("a stage with passes");
    session.run(&mut module, &scheduling).expect("schedules");
    let scheduled = module.as_operation().to_string();
    let rest = kernels_between("scheduled", "llvm").expect("stages with passes");
    session.run(&mut module, &rest).expect("lowers");
    let options = Options { keep_ir: true, keep_assembly: true, ..Options::default() };
    (scheduled, compile_kernels(module_op(&module), &options).expect("compiles"))
}

/// The only entry points of OpenMP that the runtime supplies.
const OPENMP: &[&str] =
    &["__kmpc_barrier", "__kmpc_for_static_fini", "__kmpc_for_static_init_8u", "__kmpc_fork_call", "__kmpc_global_thread_num"];

fn assert_parallel_without_heap(object: &KernelObject) {
    let openmp: Vec<_> = object.imports.iter().filter(|name| name.starts_with("__kmpc")).collect();
    assert_eq!(openmp, OPENMP);
    assert!(!object.imports.iter().any(|name| name == "malloc"), "{:?}", object.imports);
}

#[test]
fn softmax_is_one_parallel_loop_over_rows() {
    let (scheduled, object) = lower(include_str!("kernels/softmax.mlir"));
    assert_eq!(scheduled.matches("scf.forall (").count(), 1, "{scheduled}");
    // A loop over the rows of a thread; in it two loops over the columns of a row, which prefetch the next row.
    assert_eq!(scheduled.matches("scf.for ").count(), 3, "{scheduled}");
    assert_eq!(scheduled.matches("{dynamo.prefetch}").count(), 2, "{scheduled}");
    assert!(scheduled.contains("tensor<1x1024xf32>") && !scheduled.contains("dynamo.unscheduled"), "{scheduled}");
    assert_eq!(object.symbols, ["softmax"]);
    assert_parallel_without_heap(&object);
}

#[test]
fn layer_norm_keeps_its_statistics_in_the_same_loop() {
    let (scheduled, object) = lower(include_str!("kernels/layer-norm.mlir"));
    assert_eq!(scheduled.matches("scf.forall (").count(), 1, "{scheduled}");
    assert!(!scheduled.contains("dynamo.unscheduled"), "{scheduled}");
    assert_parallel_without_heap(&object);
    let optimized = object.optimized_ir.expect("asked for");
    assert!(!optimized.contains("vector.memcheck"), "the aliasing facts were lost:\n{optimized}");
    if simd_level(&host()) > SimdLevel::Baseline {
        assert!(optimized.contains("x float>"), "not vectorized:\n{optimized}");
    }
}

#[test]
fn little_work_wakes_no_threads() {
    let (scheduled, object) = lower(include_str!("kernels/softmax-small.mlir"));
    assert!(!scheduled.contains("scf.forall"), "{scheduled}");
    assert!(object.imports.is_empty(), "{:?}", object.imports);
}

#[test]
fn other_math_functions_become_vector_calls() {
    let (_, object) = lower(include_str!("kernels/expm1.mlir"));
    if simd_level(&host()) > SimdLevel::Baseline {
        assert_eq!(object.vector_math_calls, 1);
        assert!(object.imports.iter().any(|name| name.starts_with("Sleef_expm1f")), "{:?}", object.imports);
    }
    assert!(object.assembly.expect("asked for").contains("expm1_of:"));
}

#[test]
fn a_value_that_bypasses_the_root_is_left_unscheduled() {
    let text = include_str!("kernels/softmax.mlir").replace("materialize_in_destination %r in", "materialize_in_destination %ex#0 in");
    let (scheduled, _) = lower(&text);
    assert!(scheduled.contains("dynamo.unscheduled = \"phase 1 leaves the kernel"), "{scheduled}");
}
