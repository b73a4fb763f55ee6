//! Kernels become machine code on several threads.
//!
//! Kernels know nothing of each other, so the kernel module is split into as many parts as there are threads, of about equal
//! size. The first part stays where it is, in the compilation's own session; the others travel as bytecode to sessions of
//! their own, since neither an MLIR context nor an LLVM one is shared between threads. What a part is made of depends on the
//! kernels alone, and their order is that of the module: two compilations make the same code.
//!
//! A dump shows all kernels in one file, so there is one part where anything is dumped. The same holds where something in the
//! module refers to something else in it, as it may in a stage that somebody has edited.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Instant,
};

use dynamlir_codegen::{
    KernelObject, compile_kernels,
    pipelines::{STAGES, Scope},
};
use dynamlir_dialect::{
    Session,
    context::module_op,
    ir::{Attr, Block, Builder, Op, Target},
    ops,
    program::kernels,
    upstream::func,
};

use crate::{Error, Report, stages::Dumper};

/// Kernels that are compiled together.
pub struct Part {
    /// Their names, in the order of the module.
    pub names: Vec<String>,
    /// Their module's bytecode; None for what stays in the compilation's own module.
    module: Option<Vec<u8>>,
}

/// What a part became.
pub struct Made {
    /// Its machine code.
    pub object: KernelObject,
    /// Seconds by step and by pass, on the part's own thread.
    pub report: Report,
}

/// How many threads to use, where nobody says: as many as the process may run at a time. Past sixteen each has too few kernels to
/// pay for a session.
pub fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(16)
}

/// Splits off all parts but the first, whose kernels stay in `module`.
pub fn split(session: &Session, module: Op, names: &[String], threads: usize) -> Result<Vec<Part>, Error> {
    let whole = || vec![Part { names: names.to_vec(), module: None }];
    let functions = kernels(module);
    if threads < 2 || !functions.iter().all(|&function| stands_alone(function)) {
        return Ok(whole());
    }
    let wanted: Vec<(String, Op)> = functions
        .into_iter()
        .filter_map(|function| Some((function.symbol()?, function)))
        .filter(|(name, _)| names.contains(name))
        .collect();
    let sizes: Vec<usize> = wanted.iter().map(|(_, function)| size(*function)).collect();
    let shares = balance(&sizes, threads);
    if shares.len() < 2 {
        return Ok(whole());
    }
    let mut parts = Vec::with_capacity(shares.len());
    for (i, share) in shares.into_iter().enumerate() {
        let names = share.iter().map(|&kernel| wanted[kernel].0.clone()).collect();
        let functions: Vec<Op> = share.iter().map(|&kernel| wanted[kernel].1).collect();
        let module = if i == 0 { None } else { Some(take(session, &functions)?) };
        parts.push(Part { names, module });
    }
    Ok(parts)
}

/// The bytecode of a module of these functions, of which declarations stay behind.
fn take(session: &Session, functions: &[Op]) -> Result<Vec<u8>, Error> {
    let part = session.parse("module {}")?;
    let body = module_op(&part).body().ok_or_else(|| Error::Plan("a module without a body".into()))?;
    if let Some(target) = functions.first().and_then(|function| Target::written(*function)) {
        ops::TARGET.set(module_op(&part), &target);
    }
    for function in functions {
        body.append(function.clone_detached());
        declare(*function);
    }
    Ok(module_op(&part).bytecode())
}

/// Leaves of a kernel what launches are held against.
pub fn declare(kernel: Op) {
    let ctx = kernel.ctx();
    let kept =
        kernel.attrs().into_iter().filter(|(name, _)| ["sym_name", func::FUNCTION_TYPE, ops::SIGNATURE.name()].contains(&name.as_str()));
    let mut attrs = vec![("sym_visibility".to_owned(), Attr::str(ctx, "private"))];
    attrs.extend(kept);
    let attrs: Vec<_> = attrs.iter().map(|(name, attr)| (name.as_str(), *attr)).collect();
    let builder = Builder::before(kernel);
    builder.insert(builder.detached(func::FUNC, &[], &[], &attrs, 1));
    kernel.erase();
}

/// Whether an op of the kernel module can be compiled without the others: a declaration, or a kernel that names no symbol.
fn stands_alone(op: Op) -> bool {
    if !op.is(func::FUNC) || (op.body().is_some() && !ops::KERNEL.is_on(op)) {
        return false;
    }
    let mut alone = true;
    op.walk(&mut |inner| alone &= inner == op || !inner.attrs().iter().any(|(_, attr)| attr.as_symbol().is_some()));
    alone
}

/// What a kernel will cost, roughly: loops, branches and calls come with each, and code with each operation. A kernel that packs
/// its operands into memory of its own is a product of matrices, of which scheduling makes dozens of unrolled pieces.
fn size(function: Op) -> usize {
    let mut operations = 0;
    function.walk(&mut |_| operations += 1);
    let arguments = function.body().map(Block::args).unwrap_or_default().len();
    let packs = (0..arguments).any(|at| ops::SCRATCH.of_arg(function, at) == Some(true));
    (20 + operations) * if packs { 30 } else { 1 }
}

/// Shares of things with these sizes, at most `count` and none empty: the largest first, each to the smallest share so far.
fn balance(sizes: &[usize], count: usize) -> Vec<Vec<usize>> {
    let mut shares = vec![(0, Vec::new()); count.min(sizes.len())];
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(sizes[i]), i));
    for i in order {
        if let Some((total, share)) = shares.iter_mut().min_by_key(|(total, _)| *total) {
            *total += sizes[i];
            share.push(i);
        }
    }
    shares.into_iter().map(|(_, mut share)| (share.sort_unstable(), share).1).collect()
}

/// Compiles all parts at the same time: the first by `here`, which works on the compilation's own module, the others on threads
/// of their own, whose sessions trust their passes if `trusts` says so; where the system gives no thread, on this one. The first
/// part that fails tells why.
pub fn compile(
    parts: &[Part],
    dumper: &Dumper,
    trusts: bool,
    report: &mut Report,
    here: impl FnOnce(&mut Report) -> Result<KernelObject, Error>,
) -> Result<Vec<KernelObject>, Error> {
    let start = Instant::now();
    let stop = AtomicBool::new(false);
    let outcomes: Vec<Result<Made, Error>> = thread::scope(|scope| {
        let workers: Vec<_> = parts
            .iter()
            .filter_map(|part| Some((part, part.module.as_deref()?)))
            .map(|(part, module)| {
                let work = || elsewhere(&part.names, module, trusts, dumper, &stop);
                // MLIR and LLVM recurse; the main thread's stack has this size, too.
                let worker = thread::Builder::new().name("dynamlir-compile".into()).stack_size(8 << 20).spawn_scoped(scope, work);
                (worker.ok(), work)
            })
            .collect();
        let mut own = Report::default();
        let own = here(&mut own).map(|object| Made { object, report: own });
        stop.store(own.is_err(), Ordering::Relaxed);
        let others = workers.into_iter().map(|(worker, work)| match worker.map(thread::ScopedJoinHandle::join) {
            Some(Ok(made)) => made,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            // A container's limit, as a rule.
            None => work(),
        });
        std::iter::once(own).chain(others).collect()
    });
    let made = outcomes.into_iter().collect::<Result<Vec<_>, _>>()?;
    report.threads = made.len();
    report.merge(made.iter().map(|part| &part.report), start.elapsed().as_secs_f64());
    Ok(made.into_iter().map(|part| part.object).collect())
}

/// Compiles a part from stage linalg on, in a session of its own.
fn elsewhere(names: &[String], bytecode: &[u8], trusts: bool, dumper: &Dumper, stop: &AtomicBool) -> Result<Made, Error> {
    let mut report = Report::default();
    let start = Instant::now();
    let session = if trusts { Session::new().trusting() } else { Session::new() };
    let mut module = session.read(bytecode)?;
    report.time("session", start.elapsed().as_secs_f64());
    for stage in STAGES.iter().filter(|stage| stage.scope == Scope::Kernels) {
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        let Some(pipeline) = stage.kernels_pipeline() else { continue };
        let start = Instant::now();
        session.run_timed(&mut module, &pipeline, &mut |pass, seconds| report.time_pass(pass, seconds))?;
        report.time(stage.name, start.elapsed().as_secs_f64());
    }
    let object = object(module_op(&module), names, dumper, &session, &mut report)?;
    Ok(Made { object, report })
}

/// Machine code for the functions of a kernel module at stage llvm.
pub fn object(kernels: Op, names: &[String], dumper: &Dumper, session: &Session, report: &mut Report) -> Result<KernelObject, Error> {
    let keep = dumper.is_on();
    for function in kernels.body().map(Block::ops).unwrap_or_default() {
        if let Some((name, reason)) = function.symbol().zip(ops::UNSCHEDULED.of(function)) {
            report.unscheduled.insert(name, reason);
        }
    }
    let settings =
        dynamlir_codegen::Options { kernels: names.to_vec(), keep_ir: keep, keep_assembly: keep, ..dynamlir_codegen::Options::default() };
    let object = compile_kernels(kernels, &settings).map_err(|source| Error::Codegen {
        kernels: names.join(", "),
        source,
        diagnostics: session.take_diagnostics(),
    })?;
    report.time("llvm-ir", object.seconds.translate);
    report.time("optimize", object.seconds.optimize);
    report.time("emit", object.seconds.emit);
    Ok(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_equal_in_size_and_in_order() {
        assert_eq!(balance(&[10, 40, 10, 20], 2), [vec![1], vec![0, 2, 3]]);
        assert_eq!(balance(&[5, 5, 5], 8), [vec![0], vec![1], vec![2]]);
        assert_eq!(balance(&[], 4), Vec::<Vec<usize>>::new());
    }

    const MODULE: &str = r"
module {
  module @kernels {
    func.func @a(%x: memref<4xf32>) attributes {dynamo.kernel, dynamo.signature = () -> (memref<4xf32>)} { return }
    func.func @b(%x: memref<4xf32>) attributes {dynamo.kernel, dynamo.signature = () -> (memref<4xf32>)} { return }
    func.func private @known(memref<4xf32>)
  }
}";

    fn names(parts: &[Part]) -> Vec<Vec<String>> {
        parts.iter().map(|part| part.names.clone()).collect()
    }

    #[test]
    fn kernels_that_leave_are_declared() {
        let session = Session::new();
        let module = session.parse(MODULE).expect("parses");
        let parts = split(&session, module_op(&module), &["a".into(), "b".into()], 4).expect("splits");
        assert_eq!(names(&parts), [["a"], ["b"]]);
        let bytecode = parts[1].module.as_deref().expect("the second part travels");
        let other = Session::new();
        let second = module_op(&other.read(bytecode).expect("reads")).text();
        assert!(second.contains("func.func @b(") && !second.contains("@a"), "{second}");
        let first = module_op(&module).text();
        assert!(first.contains("func.func @a(") && first.contains("func.func private @b(memref<4xf32>)"), "{first}");
    }

    #[test]
    fn a_kernel_that_packs_weighs_more() {
        let session = Session::new();
        let module = session.parse(MODULE).expect("parses");
        let kernels = kernels(module_op(&module));
        let before = size(kernels[0]);
        assert_eq!(before, size(kernels[1]));
        let scratch = Attr::dict(session.ctx(), &[ops::SCRATCH.with(session.ctx(), ())]);
        kernels[0].set_attr(func::ARG_ATTRS, Attr::array(session.ctx(), &[scratch]));
        assert!(size(kernels[0]) > 10 * before);
    }

    #[test]
    fn what_refers_to_others_stays_together() {
        let session = Session::new();
        let text = MODULE.replacen("{ return }", "{ func.call @known(%x) : (memref<4xf32>) -> () return }", 1);
        let module = session.parse(&text).expect("parses");
        let parts = split(&session, module_op(&module), &["a".into(), "b".into()], 4).expect("splits");
        assert_eq!(names(&parts), [["a", "b"]]);
    }
}
