//! Runs the whole pipeline in a context of ours, which knows fewer dialects and passes than `dynamlir-opt`.
#![forbid(unsafe_code)]

use std::{fs, path::Path};

use dynamlir_dialect::{
    context::{Session, module_op, module_text},
    ir::{Block, Op},
};
use dynamlir_nvptx::{pipelines, ptx};

/// A lit test's kernels, in a module of their own as in the driver.
fn stage(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../test/nvptx").join(file);
    fs::read_to_string(path).expect("the lit test")
}

fn register() {
    dynamlir_passes::register_all();
    dynamlir_codegen::pipelines::register_all();
    pipelines::register_all();
}

#[test]
fn softmax_becomes_a_binary() {
    register();
    let session = Session::new();
    let mut module = session.parse(&stage("softmax.mlir")).expect("it parses");
    let pipeline = format!("builtin.module({})", pipelines::kernels_to_nvptx(&[("chip", "sm_90"), ("libdevice", "none")]));
    session.run(&mut module, &pipeline).expect("it becomes PTX");
    let text = module_text(&module);
    assert!(text.contains("gpu.binary @device") && text.contains(".target sm_90") && text.contains("dynamo.launches"), "{text}");
}

#[test]
fn code_comes_with_its_launches() {
    register();
    let session = Session::new();
    let mut module = session.parse(&stage("matmul.mlir")).expect("it parses");
    let passes = format!("builtin.module(builtin.module({},{}))", pipelines::TO_GPU, pipelines::TO_NVVM);
    let passes = pipelines::with_options(&passes, &[("libdevice", "none")]);
    session.run(&mut module, &passes).expect("it becomes NVVM");
    let kernels = module_op(&module).body().map(Block::ops).unwrap_or_default()[0];
    let device = kernels.body().into_iter().flat_map(Block::ops).find(|op: &Op| op.is("gpu.module")).expect("a GPU module");
    let code = ptx::compile(device, "sm_80", None).expect("it becomes PTX");
    assert_eq!(code.chip, "sm_80");
    let names: Vec<_> = code.launches.iter().map(|launch| launch.name.as_str()).collect();
    assert_eq!(names, ["whole", "linear", "odd"]);
    for name in names {
        assert!(code.text.contains(&format!(".visible .entry {name}(")), "{}", code.text);
    }
    let whole = &code.launches[0];
    assert_eq!((whole.grid, whole.block), ([4, 1, 1], [128, 1, 1]));
    assert!(whole.accepts(&[256, 512, 768]).is_ok());
    assert!(whole.accepts(&[256, 514, 768]).is_err(), "eight halves are loaded at once");
}
