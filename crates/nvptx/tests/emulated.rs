//! Checks that every kernel of the lit tests computes the same on emulated threads as on the CPU's own path.
//!
//! This does not use a GPU: the tests emulate the LLVM IR that PTX is generated from, not the output of LLVM's code generator on the
//! hardware.

#![expect(clippy::cast_precision_loss, clippy::float_cmp, reason = "results are compared within bounds; infinities as they are")]

mod emulator;

use std::{fs, path::Path};

use dynamlir_codegen::{bridge::translate, pipelines::kernels_between};
use dynamlir_dialect::{
    context::{Session, module_op},
    ir::{Op, Type, Value},
};
use dynamlir_nvptx::{launch, pipelines};
use inkwell::context::Context;

/// Memory of one argument.
struct Buffer {
    ty: Type,
    /// In units of the largest vector alignment.
    words: Vec<u128>,
}

impl Buffer {
    fn new(ty: Type, random: &mut Random, least: i64) -> Self {
        let extent = 1 + ty.shape().iter().zip(ty.strides()).map(|(&size, stride)| (size - 1) * stride).sum::<i64>();
        let width = ty.element().width().div_ceil(8) as usize;
        let mut bytes = Vec::new();
        for _ in 0..extent {
            bytes.extend_from_slice(&random.element(ty.element(), least)[..width]);
        }
        bytes.resize(bytes.len().next_multiple_of(16), 0);
        let words = bytes.chunks_exact(16).map(|chunk| u128::from_ne_bytes(chunk.try_into().expect("sixteen bytes"))).collect();
        Self { ty, words }
    }
    /// Memory filled with ones: NaN, or -1, which no kernel here computes.
    fn unwritten(&self) -> Self {
        Self { ty: self.ty, words: vec![u128::MAX; self.words.len()] }
    }
    fn address(&mut self) -> *mut u8 {
        self.words.as_mut_ptr().cast()
    }
    /// The elements in the order of their indices, regardless of the strides.
    fn elements(&self) -> Vec<f64> {
        let bytes: Vec<u8> = self.words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let element = self.ty.element();
        let width = element.width().div_ceil(8) as usize;
        let (shape, strides) = (self.ty.shape(), self.ty.strides());
        let place = |linear: i64| {
            let mut left = linear;
            let parts = shape.iter().zip(&strides).rev().map(|(&size, &stride)| {
                let index = left % size;
                left /= size;
                index * stride
            });
            parts.sum::<i64>() as usize
        };
        (0..self.ty.numel()).map(|linear| read(element, &bytes[place(linear) * width..][..width])).collect()
    }
}

fn read(element: Type, bytes: &[u8]) -> f64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    let bits = u64::from_le_bytes(word);
    match element.to_string().as_str() {
        "f32" => f32::from_bits(bits as u32).into(),
        "f64" => f64::from_bits(bits),
        "f16" => half(bits as u16),
        "bf16" => f32::from_bits((bits as u32) << 16).into(),
        "i64" => bits as i64 as f64,
        "i32" => f64::from(bits as i32),
        "i8" => f64::from(bits as i8),
        other => panic!("no test has {other}"),
    }
}

/// A normal number of 16 bits, or zero.
fn half(bits: u16) -> f64 {
    let (sign, exponent, fraction) = (f64::from(bits >> 15), i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    let magnitude = if exponent == 0 { 0.0 } else { (1.0 + fraction / 1024.0) * f64::from(exponent - 15).exp2() };
    magnitude * (1.0 - 2.0 * sign)
}

/// A small generator, so that a failure is reproducible.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn element(&mut self, element: Type, least: i64) -> [u8; 8] {
        let unit = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        let real = 4.0 * unit - 2.0;
        let bits = match element.to_string().as_str() {
            "f32" => (real as f32).to_bits().into(),
            "f64" => real.to_bits(),
            // Multiples of one half and one quarter with few digits: exact, and never subnormal.
            "f16" => [0x3800, 0x3C00, 0xBC00, 0x3E00, 0xB800, 0x4000, 0, 0x3D00][(self.next() % 8) as usize],
            "bf16" => u64::from((real as f32).to_bits() >> 16),
            "i64" | "i32" => (least + (self.next() % 9) as i64) as u64,
            "i8" => self.next() % 2,
            other => panic!("no test has {other}"),
        };
        bits.to_le_bytes()
    }
}

fn find(root: Op, wanted: &dyn Fn(Op) -> bool) -> Vec<Op> {
    let mut found = Vec::new();
    root.walk(&mut |op| {
        if wanted(op) {
            found.push(op);
        }
    });
    found
}

/// The blocks that are run: all if there are few, else some at both ends.
fn blocks(count: i64) -> Vec<i64> {
    if count <= 6 { (0..count).collect() } else { vec![0, 1, count / 2, count - 1] }
}

/// Runs each kernel of a lit test both ways.
fn compare(file: &str, tf32: bool) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../test/nvptx").join(file);
    compare_text(&fs::read_to_string(path).expect("the lit test"), tf32);
}

/// Runs each kernel of a stage 05 module both ways, except those that do not get GPU code.
fn compare_text(text: &str, tf32: bool) {
    dynamlir_passes::register_all();
    dynamlir_codegen::pipelines::register_all();
    pipelines::register_all();
    let session = Session::new();

    let mut host = session.parse(text).expect("it parses");
    let kernels: Vec<(String, Vec<Type>, i64)> = find(module_op(&host), &|op| op.attr("dynamo.kernel").is_some())
        .into_iter()
        .map(|op| {
            let inputs = op.body().expect("a body").args().into_iter().map(Value::ty).collect();
            // Numbers that index memory are not negative.
            let least = if find(op, &|op| op.is("tensor.extract")).is_empty() { -4 } else { 0 };
            (op.symbol().expect("a name"), inputs, least)
        })
        .collect();
    let nested = |pipeline: &str| format!("builtin.module({pipeline})");
    let cpu = kernels_between("linalg", "llvm").expect("stages").replace("dynamo-schedule,", "dynamo-schedule{threads=false},");
    session.run(&mut host, &nested(&cpu)).expect("the CPU's path");
    let mut device = session.parse(text).expect("it parses");
    // The host has neither an instruction nor a function that rounds to bf16, so the rounding is expanded.
    let gpu = format!("builtin.module({},gpu.module(arith-expand{{include-bf16=1}}),{})", pipelines::TO_GPU, pipelines::TO_NVVM);
    let gpu = pipelines::with_options(&gpu, &[("libdevice", "none"), ("tf32", if tf32 { "true" } else { "false" })]);
    session.run(&mut device, &nested(&gpu)).expect("the GPU's path");

    let host_module = find(module_op(&host), &|op| op.is("builtin.module")).pop().expect("the nested module");
    let device_module = find(module_op(&device), &|op| op.is("gpu.module")).pop().expect("a GPU module");
    let launches: Vec<_> = find(device_module, &|op| op.attr("dynamo.launch").is_some()).into_iter().filter_map(launch::of).collect();
    assert!(!launches.is_empty(), "no kernel got code");

    for (name, types, least) in kernels {
        let Some(launch) = launches.iter().find(|launch| launch.name == name) else { continue };
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        let mut expected: Vec<_> = types.iter().map(|&ty| Buffer::new(ty, &mut random, least)).collect();
        let mut got: Vec<_> = (expected.iter().zip(&launch.arguments))
            .map(
                |(buffer, argument)| {
                    if argument.written { buffer.unwritten() } else { Buffer { ty: buffer.ty, words: buffer.words.clone() } }
                },
            )
            .collect();

        let context = Context::create();
        let module = translate(host_module, &context).expect("LLVM IR of the host");
        let addresses: Vec<_> = expected.iter_mut().map(Buffer::address).collect();
        emulator::call(&context, &module, &name, &addresses, |run| run());

        let context = Context::create();
        let module = translate(device_module, &context).unwrap_or_else(|error| panic!("{error}: {}", session.take_diagnostics()));
        let addresses: Vec<_> = got.iter_mut().map(Buffer::address).collect();
        let run = blocks(launch.grid[0]);
        emulator::launch(&context, &module, launch, &run, &addresses);

        // Ten fraction bits in each factor.
        let precision = if tf32 { 1e-2 } else { 1e-5 };
        let whole = run.len() as i64 == launch.grid[0];
        for (index, argument) in launch.arguments.iter().enumerate().filter(|(_, argument)| argument.written) {
            check(&format!("{name}, argument {index}, {argument:?}"), &expected[index], &got[index], whole, precision);
        }
    }
}

/// Compares the written memory with the expected one; all of it, if all blocks ran.
fn check(what: &str, expected: &Buffer, got: &Buffer, whole: bool, precision: f64) {
    let unwritten = read(expected.ty.element(), &[0xFF; 8][..expected.ty.element().width().div_ceil(8) as usize]);
    let precision = if expected.ty.element().to_string() == "bf16" { 1e-2 } else { precision };
    let mut written = 0;
    for (place, (right, found)) in expected.elements().into_iter().zip(got.elements()).enumerate() {
        if found.to_bits() == unwritten.to_bits() && found != right {
            assert!(!whole, "{what}: element {place} was not written");
            continue;
        }
        written += 1;
        let bound = precision * right.abs().max(1.0);
        let same = found == right || (found.is_nan() && right.is_nan()) || (found - right).abs() <= bound;
        assert!(same, "{what}: {found} instead of {right} at {place}");
    }
    assert!(written > 0, "{what}: nothing was written");
}

#[test]
fn points() {
    compare("pointwise.mlir", false);
}

#[test]
fn rows() {
    compare("rows.mlir", false);
}

#[test]
fn softmax_and_layer_norm() {
    compare("softmax.mlir", false);
}

#[test]
fn columns() {
    compare("columns.mlir", false);
}

#[test]
fn products_of_matrices() {
    compare("matmul.mlir", false);
    compare("matmul-tf32.mlir", true);
}
