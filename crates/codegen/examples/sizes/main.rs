//! The cost of sizes that are arguments: times the same kernels with numbers, and with symbols for the number of rows, of columns, or both,
//! alternating on one thread.
//!
//! `cargo run --release -p dynamlir-codegen --example sizes -- [NAME [ROWSxCOLUMNS …]] [--dump DIR]`. The figures are times relative to the
//! kernel with numbers; `other hints`: both are symbols with a hint of 32.

#![expect(clippy::cast_precision_loss, reason = "figures")]

mod kernels;

use std::{env, error::Error, ffi::c_void, fs, ptr, sync::Arc, time::Instant};

use dynamlir_codegen::{Options, compile_kernels, pipelines::Stage, target::host};
use dynamlir_dialect::{Session, context::module_op, ops};
use dynamlir_runtime::{Jit, Kernel as Linked};
use kernels::{KERNELS, Kernel, Sizes, TABLE};

/// The variants timed besides the kernel with numbers: a heading, which sizes are symbols, and their hints.
const FORMS: &[(&str, [bool; 2], Option<i64>)] = &[
    ("rows", [true, false], None),
    ("columns", [false, true], None),
    ("both", [true, true], None),
    ("other hints", [true, true], Some(32)),
];
const SIZES: &[[i64; 2]] = &[[256, 1024], [1000, 64], [64, 4096], [257, 509], [4, 100]];
/// The seconds that each variant is timed in one turn, and the number of turns.
const TURN: f64 = 2e-3;
const TURNS: usize = 25;

type Fallible<T> = Result<T, Box<dyn Error>>;

fn main() -> Fallible<()> {
    dynamlir_passes::register_all();
    dynamlir_codegen::pipelines::register_passes();
    let mut args: Vec<_> = env::args().skip(1).collect();
    let dump = args.iter().position(|arg| arg == "--dump").map(|at| args.drain(at..).nth(1).unwrap_or_default());
    let wanted = args.first().cloned().unwrap_or_default();
    let sizes = args.iter().skip(1).map(|text| pair(text)).collect::<Option<Vec<_>>>().ok_or("expected sizes like 256x1024")?;
    let sizes = if sizes.is_empty() { SIZES.to_vec() } else { sizes };

    let heads: Vec<_> = FORMS.iter().map(|(head, ..)| format!("{head:>12}")).collect();
    println!("{:40}{:>10}{}", "", "µs", heads.concat());
    let mut ratios = vec![vec![Vec::new(); FORMS.len()]; sizes.len()];
    for kernel in KERNELS.iter().filter(|kernel| kernel.name.contains(&wanted)) {
        for element in ["f32", "bf16"].into_iter().filter(|&element| element == "f32" || !kernel.adds()) {
            for (&numbers, ratios) in sizes.iter().zip(&mut ratios) {
                let times = race(kernel, numbers, element, dump.as_deref())?;
                let compared: Vec<_> = times[1..].iter().map(|time| time / times[0]).collect();
                ratios.iter_mut().zip(&compared).for_each(|(all, &ratio)| all.push(ratio));
                let (written, size) = (written(compared), format!("{}x{}", numbers[0], numbers[1]));
                println!("{:24}{element:6}{size:>10}{:10.2}{written}", kernel.name, times[0] * 1e6);
            }
        }
    }
    for (numbers, ratios) in sizes.iter().zip(&ratios) {
        let size = format!("{}x{}", numbers[0], numbers[1]);
        println!("{:24}{size:>16}{:10}{}", "geometric mean", "", written(ratios.iter().map(|all| geometric_mean(all))));
        println!("{:24}{size:>16}{:10}{}", "worst", "", written(ratios.iter().map(|all| all.iter().copied().fold(0.0, f64::max))));
    }
    Ok(())
}

fn written(ratios: impl IntoIterator<Item = f64>) -> String {
    ratios.into_iter().map(|ratio| format!("{ratio:12.2}")).collect::<Vec<_>>().concat()
}

fn geometric_mean(all: &[f64]) -> f64 {
    (all.iter().map(|ratio| ratio.ln()).sum::<f64>() / all.len() as f64).exp()
}

/// `256x1024`
fn pair(text: &str) -> Option<[i64; 2]> {
    let (rows, columns) = text.split_once('x')?;
    Some([rows.parse().ok()?, columns.parse().ok()?])
}

/// The shortest time of a call of each variant, the one with numbers first. All must compute the same result.
fn race(kernel: &Kernel, numbers: [i64; 2], element: &str, dump: Option<&str>) -> Fallible<Vec<f64>> {
    let forms = FORMS.iter().map(|&(head, open, hint)| (head, open, numbers.map(|number| hint.unwrap_or(number))));
    let mut contestants = Vec::new();
    for (head, open, hints) in [("numbers", [false; 2], numbers)].into_iter().chain(forms) {
        let name = format!("{} {element} {}x{} {head}", kernel.name, numbers[0], numbers[1]).replace([' ', ','], "-");
        let text = kernel.text(&Sizes { numbers, open, hints }, element);
        let keep = dump.map(|folder| format!("{folder}/{name}"));
        contestants.push(compile(&text, keep.as_deref()).map_err(|error| format!("{name}: {error}\n{text}"))?);
    }
    let mut memory = operands(kernel, numbers, element);
    let mut row: Vec<*mut c_void> = memory.iter_mut().map(|lines| lines.as_mut_ptr().cast()).collect();
    row.extend(numbers.map(|number| ptr::without_provenance_mut(number as usize)));
    let time = |linked: &Linked, count: u32| {
        let start = Instant::now();
        for _ in 0..count {
            // SAFETY: the row contains an address for each argument, of enough memory for it, and the sizes.
            unsafe { linked.call(row.as_ptr()) };
        }
        start.elapsed().as_secs_f64() / f64::from(count)
    };
    let (mut times, mut results) = (Vec::new(), Vec::new());
    for linked in &contestants {
        memory.iter_mut().zip(operands(kernel, numbers, element)).for_each(|(lines, fresh)| lines.copy_from_slice(&fresh));
        times.push(time(linked, 1));
        results.push(floats(&memory[memory.len() - 1], element));
    }
    for result in &results[1..] {
        let scale = results[0].iter().fold(1e-3_f32, |most, value| most.max(value.abs()));
        let error = results[0].iter().zip(result).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        if error > scale * if element == "bf16" { 1e-2 } else { 1e-4 } {
            return Err(format!("{} {element} {numbers:?}: results differ by {error}", kernel.name).into());
        }
    }
    for _ in 0..TURNS {
        for (linked, least) in contestants.iter().zip(&mut times) {
            *least = least.min(time(linked, (TURN / *least) as u32 + 1));
        }
    }
    Ok(times)
}

fn compile(text: &str, keep: Option<&str>) -> Fallible<Linked> {
    let session = Session::new();
    let mut module = session.parse(text)?;
    ops::TARGET.set(module_op(&module), &host());
    for stage in Stage::of("planned").up_to(Stage::of("llvm")) {
        let pipeline = stage.kernels_pipeline().or_else(|| stage.pipeline()).unwrap_or_default();
        session.run(&mut module, &pipeline)?;
        if let Some(path) = keep {
            fs::write(format!("{path}.{}.mlir", stage.label()), module.as_operation().to_string())?;
        }
    }
    let options = Options { kernels: vec!["k".into()], keep_ir: keep.is_some(), keep_assembly: keep.is_some(), ..Options::default() };
    let object = compile_kernels(module_op(&module), &options)?;
    if let Some(path) = keep {
        fs::write(format!("{path}.mlir"), text)?;
        fs::write(format!("{path}.opt.ll"), object.optimized_ir.unwrap_or_default())?;
        fs::write(format!("{path}.s"), object.assembly.unwrap_or_default())?;
    }
    let jit: Arc<Jit> = Jit::link(&[&object.object])?;
    Ok(jit.kernel("k")?)
}

/// A cache line, the alignment of torch's memory too.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u8; 64]);

/// Memory for a kernel's operands, with the same contents each time.
fn operands(kernel: &Kernel, numbers: [i64; 2], element: &str) -> Vec<Vec<Line>> {
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / 2.0_f32.powi(24)
    };
    let mut memory = Vec::new();
    for place in kernel.places() {
        let count = 0..place.elements(numbers);
        let bytes: Vec<u8> = match place.element(element) {
            "i64" => count.flat_map(|_| ((random() * (TABLE - 1) as f32) as i64).to_le_bytes()).collect(),
            "bf16" => count.flat_map(|_| ((random().to_bits() >> 16) as u16).to_le_bytes()).collect(),
            _ => count.flat_map(|_| random().to_le_bytes()).collect(),
        };
        let line = |chunk: &[u8]| {
            let mut line = Line([0; 64]);
            line.0[..chunk.len()].copy_from_slice(chunk);
            line
        };
        memory.push(bytes.chunks(64).map(line).collect());
    }
    memory
}

fn floats(memory: &[Line], element: &str) -> Vec<f32> {
    let bytes: Vec<u8> = memory.iter().flat_map(|line| line.0).collect();
    match element {
        "bf16" => bytes.chunks_exact(2).map(|pair| f32::from_bits(u32::from(pair[1]) << 24 | u32::from(pair[0]) << 16)).collect(),
        _ => bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect(),
    }
}
