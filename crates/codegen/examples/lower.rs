//! Lowers a file of kernels from stage 05 to an object, and prints the time it took.
//!
//! `lower kernels.mlir out.o [out.s [out.ll]]`. The module is the kernel module itself, not the graph around it.

use std::{env, fs, time::Instant};

use dynamlir_codegen::{Options, compile_kernels, pipelines::STAGES, pipelines::Scope, target::host};
use dynamlir_dialect::{Session, context::module_op, ir::Target, ops};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<_> = env::args().skip(1).collect();
    let [input, output, rest @ ..] = args.as_slice() else {
        return Err("usage: lower kernels.mlir out.o [out.s [out.ll]]".into());
    };
    dynamlir_passes::register_all();
    dynamlir_codegen::pipelines::register_passes();
    let session = Session::new();
    let mut module = session.parse(&fs::read_to_string(input)?)?;
    if Target::written(module_op(&module)).is_none() {
        ops::TARGET.set(module_op(&module), &host());
    }
    for stage in STAGES.iter().filter(|stage| stage.scope == Scope::Kernels) {
        let start = Instant::now();
        session.run(&mut module, &stage.kernels_pipeline().unwrap_or_default())?;
        println!("{:<14} {:6.1} ms", stage.label(), start.elapsed().as_secs_f64() * 1e3);
        if env::var_os("DUMP").is_some() {
            println!("{}", module.as_operation());
        }
    }
    let options = Options { keep_ir: rest.len() > 1, keep_assembly: !rest.is_empty(), ..Options::default() };
    let kernels = compile_kernels(module_op(&module), &options)?;
    fs::write(output, &kernels.object)?;
    if let (Some(path), Some(text)) = (rest.first(), &kernels.assembly) {
        fs::write(path, text)?;
    }
    if let (Some(path), Some(text)) = (rest.get(1), &kernels.optimized_ir) {
        fs::write(path, text)?;
    }
    let seconds = kernels.seconds;
    println!("translate {:.1} ms, optimize {:.1} ms, emit {:.1} ms", seconds.translate * 1e3, seconds.optimize * 1e3, seconds.emit * 1e3);
    println!("defines {:?}, needs {:?}, {} bytes", kernels.symbols, kernels.imports, kernels.object.len());
    Ok(())
}
