//! A module goes through all stages and comes back as a plan with linked kernels.

use std::{path::PathBuf, time::Instant};

use dynamlir_codegen::{compile_kernels, packed, pipelines::Stage};
use dynamlir_dialect::{
    Session,
    context::module_op,
    ir::{Attr, Builder, Op},
};
use dynamlir_import::Trace;
use dynamlir_runtime::{Jit, Kernel, Plan};
use melior::ir::Module;

use crate::{
    Error, Report, cache, detect,
    plan::{kernels_module, read},
    stages::{Dumper, advance},
};

/// How to compile.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Write every stage into this folder.
    pub dump: Option<PathBuf>,
    /// Compile every kernel anew.
    pub no_cache: bool,
}

/// A compiled graph, ready for the runtime.
pub struct Compiled {
    /// What to do per call.
    pub plan: Plan,
    /// The kernels of `plan.kernels`, in order.
    pub kernels: Vec<Kernel>,
    /// What was done.
    pub report: Report,
}

/// Asked between stages; an error ends the compilation.
pub type Check<'a> = &'a mut dyn FnMut() -> Result<(), Error>;

/// Compiles a recorded trace.
pub fn compile_trace(trace: &Trace, options: &Options, check: Check<'_>) -> Result<Compiled, Error> {
    let start = Instant::now();
    let session = Session::new();
    let mut module = session.parse("module {}")?;
    let mut report = Report::default();
    let opened = start.elapsed().as_secs_f64();
    let body = module_op(&module).body().ok_or_else(|| Error::Plan("a module without a body".into()))?;
    trace.write(body, session.ctx())?;
    report.time("session", opened);
    report.time("import", start.elapsed().as_secs_f64() - opened);
    if !module_op(&module).verify() {
        return Err(Error::Plan(format!("the recorded graph is not valid:\n{}", session.take_diagnostics())));
    }
    compile_module(&session, &mut module, 0, options, report, check)
}

/// Compiles a module's text, which is at the named stage, or at the one that its ops tell.
pub fn compile_text(text: &str, stage: Option<&str>, options: &Options, check: Check<'_>) -> Result<Compiled, Error> {
    let session = Session::new();
    let mut module = session.parse(text)?;
    dynamlir_passes::register_all();
    let stage = detect::stage(&session, &mut module, stage)?;
    compile_module(&session, &mut module, stage.number, options, Report::default(), check)
}

fn number(stage: &str) -> u8 {
    Stage::named(stage).map_or(u8::MAX, |stage| stage.number)
}

fn compile_module(
    session: &Session,
    module: &mut Module<'_>,
    from: u8,
    options: &Options,
    mut report: Report,
    check: Check<'_>,
) -> Result<Compiled, Error> {
    dynamlir_passes::register_all();
    let dumper = Dumper::new(options.dump.as_deref())?;
    if let Some(stage) = dynamlir_codegen::pipelines::STAGES.iter().find(|stage| stage.number == from) {
        dumper.stage(stage, module)?;
    }
    let (linalg, llvm) = (number("linalg"), number("llvm"));
    advance(session, module, (from, linalg), &dumper, &mut report, check)?;
    let plan = read(module_op(module))?;
    let names: Vec<String> = plan.kernels.iter().map(|kernel| kernel.name.clone()).collect();
    report.kernels.clone_from(&names);
    report.launches = plan.steps.iter().filter(|step| matches!(step, dynamlir_runtime::Step::Launch { .. })).count();
    report.workspace_bytes = plan.workspace_bytes;

    // A dump shows every kernel; a module past linalg no longer has the text that the cache knows kernels by.
    let cached = !(options.no_cache || dumper.is_on() || from > linalg);
    let mut found = if cached { take_known(module_op(module)) } else { Taken::default() };
    report.kernels_reused = found.known.len();
    if names.iter().any(|name| !found.known.iter().any(|(known, _)| known == name)) {
        advance(session, module, (from.max(linalg), llvm), &dumper, &mut report, check)?;
        check()?;
        let fresh = code(module_op(module), &names, &found, &dumper, &mut report)?;
        for (name, kernel) in fresh {
            if let Some((_, key)) = found.keys.iter().find(|(known, _)| *known == name) {
                cache::keep(key.clone(), kernel.clone());
            }
            found.known.push((name, kernel));
        }
    }
    let kernels = names
        .iter()
        .map(|name| found.known.iter().find(|(known, _)| known == name).map(|(_, kernel)| kernel.clone()))
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| Error::Plan("a launch names a kernel that does not exist".into()))?;
    Ok(Compiled { plan, kernels, report })
}

/// Kernels found in the cache, and the keys of those that were not.
#[derive(Default)]
struct Taken {
    known: Vec<(String, Kernel)>,
    keys: Vec<(String, String)>,
}

/// Leaves of a kernel what launches are held against.
fn declare(kernel: Op) {
    let ctx = kernel.ctx();
    let kept = kernel.attrs().into_iter().filter(|(name, _)| ["sym_name", "function_type", "dynamo.signature"].contains(&name.as_str()));
    let mut attrs = vec![("sym_visibility".to_owned(), Attr::str(ctx, "private"))];
    attrs.extend(kept);
    let attrs: Vec<_> = attrs.iter().map(|(name, attr)| (name.as_str(), *attr)).collect();
    let builder = Builder::before(kernel);
    builder.insert(builder.detached("func.func", &[], &[], &attrs, 1));
    kernel.erase();
}

/// Takes the bodies of the kernels that are compiled already.
fn take_known(module: Op) -> Taken {
    let mut taken = Taken::default();
    let Some(body) = kernels_module(module).and_then(Op::body) else { return taken };
    for func in body.ops().into_iter().filter(|op| op.attr("dynamo.kernel").is_some()) {
        let (Some(name), key) = (func.symbol(), cache::key(func)) else { continue };
        match cache::find(&key) {
            Some(kernel) => {
                taken.known.push((name, kernel));
                declare(func);
            }
            None => taken.keys.push((name, key)),
        }
    }
    taken
}

/// Machine code for the kernels that are not known yet.
fn code(module: Op, names: &[String], taken: &Taken, dumper: &Dumper, report: &mut Report) -> Result<Vec<(String, Kernel)>, Error> {
    let kernels = kernels_module(module).ok_or_else(|| Error::Plan("there is no module @kernels".into()))?;
    let names: Vec<String> = names.iter().filter(|name| !taken.known.iter().any(|(known, _)| known == *name)).cloned().collect();
    let mut settings = dynamlir_codegen::Options { kernels: names.clone(), ..Default::default() };
    settings.keep_ir = dumper.is_on();
    settings.keep_assembly = dumper.is_on();
    let object = compile_kernels(kernels, &settings)?;
    report.time("llvm-ir", object.seconds.translate);
    report.time("optimize", object.seconds.optimize);
    report.time("emit", object.seconds.emit);
    for (name, text) in [("09-kernels.ll", &object.ir), ("10-kernels.opt.ll", &object.optimized_ir), ("11-kernels.s", &object.assembly)] {
        if let Some(text) = text {
            dumper.write(name, || text.clone())?;
        }
    }
    let start = Instant::now();
    let jit = Jit::link(&[&object.object]).map_err(|error| Error::Link(error.to_string()))?;
    let linked = names
        .into_iter()
        .map(|name| {
            debug_assert!(!name.ends_with(packed::SUFFIX));
            jit.kernel(&name).map(|kernel| (name, kernel)).map_err(|error| Error::Link(error.to_string()))
        })
        .collect();
    report.time("link", start.elapsed().as_secs_f64());
    linked
}
