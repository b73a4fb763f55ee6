//! Compiles kernels to machine code on several threads.
//!
//! Kernels are independent of each other, so the kernel module is split into as many parts as there are threads, of about equal size. The
//! first part stays in the compilation's own session; the others are passed as bytecode to sessions of their own, since neither an MLIR
//! context nor an LLVM context may be shared between threads. The contents of a part depend only on the kernels, and their order is that of
//! the module: two compilations produce the same code.
//!
//! A dump shows all kernels in one file, so there is a single part if dumping is on. The same applies if something in the module refers to
//! something else in it, as is possible at a stage that a user has edited.

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
use dynamlir_passes::schedule;

use crate::{Error, Report, stages::Dumper};

/// Kernels that are compiled together.
pub struct Part {
    /// Their names, in the order of the module.
    pub names: Vec<String>,
    /// Their module's bytecode; `None` for the part that stays in the compilation's own module.
    module: Option<Vec<u8>>,
}

/// The result of compiling a part.
pub struct Made {
    /// Its machine code.
    pub object: KernelObject,
    /// Seconds by step and by pass, on the part's own thread.
    pub report: Report,
}

/// The default number of threads: as many as the process may run at a time, but at most sixteen. With more, each has too few kernels to be
/// worth a session.
pub fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(16)
}

/// Splits off all parts except the first, whose kernels stay in `module`.
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

/// The bytecode of a module of these functions; their declarations stay behind.
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

/// Reduces a kernel to the declaration that launches are verified against.
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

/// Returns true if an op of the kernel module can be compiled without the others: a declaration, or a kernel that does not refer to a
/// symbol.
fn stands_alone(op: Op) -> bool {
    if !op.is(func::FUNC) || (op.body().is_some() && !ops::KERNEL.is_on(op)) {
        return false;
    }
    let mut alone = true;
    op.walk(&mut |inner| alone &= inner == op || !inner.attrs().iter().any(|(_, attr)| attr.as_symbol().is_some()));
    alone
}

/// A rough estimate of a kernel's compile time: each operation costs loops, branches and calls, and code. A kernel that packs its operands
/// into memory of its own is a matrix product, which scheduling turns into dozens of unrolled pieces.
fn size(function: Op) -> usize {
    let mut operations = 0;
    function.walk(&mut |_| operations += 1);
    let arguments = function.body().map(Block::args).unwrap_or_default().len();
    let packs = (0..arguments).any(|at| ops::SCRATCH.of_arg(function, at) == Some(true));
    (20 + operations) * if packs { 30 } else { 1 }
}

/// Distributes items of these sizes over at most `count` nonempty shares: the largest first, each to the smallest share so far.
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

/// Compiles all parts at the same time. `here` compiles the first, in the compilation's own module. The others run on threads of their own,
/// whose sessions trust their passes if `trusts` is set; if the system does not start a thread, on this one. Returns the error of the first
/// part that fails.
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
            // Usually because of a container's limit.
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

/// Generates machine code for the functions of a kernel module at stage llvm.
pub fn object(kernels: Op, names: &[String], dumper: &Dumper, session: &Session, report: &mut Report) -> Result<KernelObject, Error> {
    let keep = dumper.is_on();
    report.decisions.extend(session.take_decisions());
    report.decisions.extend(kernels.body().map(Block::ops).unwrap_or_default().into_iter().filter_map(schedule::refusal));
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
