//! Compiles a module through all stages to plans with linked kernels, one for each entry.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    time::Instant,
};

use dynamlir_codegen::{llvm::to_llvm_ir, packed, pipelines::Stage};
use dynamlir_decisions::{Decision, Site};
use dynamlir_dialect::{
    Session,
    context::module_op,
    ir::{Block, Op},
    ops,
    program::{entries, kernels, kernels_module, write_format},
};
use dynamlir_import::Trace;
use dynamlir_runtime::{Code, Device, Jit, Kernel, Open, OpenPlan, Plan};
use melior::ir::Module;
use serde::{Deserialize, Deserializer};

use crate::{
    Error, Report, alignment, cache, detect, gpu,
    parts::{self, declare},
    placement::Placement,
    plan, problems,
    report::EntryReport,
    stages::{Dumper, advance},
};

/// Options of a compilation, which are also written as JSON.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Write every stage into this folder.
    pub dump: Option<PathBuf>,
    /// Do not look up kernels in the cache.
    pub no_cache: bool,
    /// The GPU chip that kernels are compiled for. `None`: tensors on a device get kernels for that device.
    pub chip: Option<String>,
    /// The number of threads that compile kernels. `None`: as many as the process may run at a time.
    pub threads: Option<usize>,
    /// The strategies chosen for matrix products: texts of problems and of strategies. The cost model decides about other problems.
    #[serde(deserialize_with = "pairs")]
    pub choices: Vec<(String, String)>,
    /// Generate random numbers with eager's operators, so that the same seed gives the same numbers.
    pub eager_random: bool,
    /// The percentage of recomputable values that is saved for backward: 0 needs the least memory, 100 the least time. `None`: the cost
    /// model weighs one against the other.
    pub memory_budget: Option<u8>,
    /// The values of symbols in sizes, `s0` and a number each: a program with dynamic sizes is compiled for these.
    #[serde(deserialize_with = "pairs")]
    pub symbols: Vec<(String, i64)>,
}

/// Reads a map as pairs.
fn pairs<'de, V: Deserialize<'de>, D: Deserializer<'de>>(map: D) -> Result<Vec<(String, V)>, D::Error> {
    BTreeMap::deserialize(map).map(|map| map.into_iter().collect())
}

/// A compiled module, ready for the runtime.
pub struct Compiled {
    /// The functions that can be called, in the order of the text; never empty.
    pub entries: Vec<Entry>,
    /// The report on the whole compilation.
    pub report: Report,
}

/// A function of a module that is called from outside.
pub struct Entry {
    /// Its symbol.
    pub name: String,
    /// The steps of a call.
    pub plan: Plan,
    /// The numbers of the plan that are expressions over symbolic sizes.
    pub open: Open,
    /// The kernels of `plan.kernels`, in order. Entries share kernels with the same name.
    pub kernels: Code,
    /// The report on a call.
    pub report: EntryReport,
}

/// Called between stages; an error ends the compilation.
pub type Check<'a> = &'a mut dyn FnMut() -> Result<(), Error>;

/// Compiles a recorded trace.
pub fn compile_trace(trace: &Trace, options: &Options, check: Check<'_>) -> Result<Compiled, Error> {
    let device = trace.device.as_deref().map_or(Ok(Device::Cpu), str::parse);
    let placement = Placement::here(device.map_err(|error| Error::Plan(error.to_string()))?, options.chip.as_deref())?;
    // The recorder's own output is valid, but a module that a user loads may be wrong in any way.
    let session = Session::new().trusting();
    let mut report = Report::default();
    let mut module = problems::import(trace, &session, &mut report)?;
    placement.write(module_op(&module));
    problems::choose(module_op(&module), &options.choices);
    if options.eager_random {
        ops::EAGER_RANDOM.set(module_op(&module), ());
    }
    if let Some(percent) = options.memory_budget {
        ops::MEMORY_BUDGET.set(module_op(&module), i64::from(percent));
    }
    compile_module(&session, &mut module, (Stage::first(), &placement), options, report, check)
}

/// Compiles the text of a module's file, which is at the named stage; if none is named, the stage is detected from its ops.
pub fn compile_text(text: &str, file: &str, stage: Option<&str>, options: &Options, check: Check<'_>) -> Result<Compiled, Error> {
    let session = Session::new();
    let mut module = session.parse_file(text, file)?;
    let placement = Placement::of(module_op(&module), options.chip.as_deref())?;
    placement.write(module_op(&module));
    dynamlir_passes::register_all();
    dynamlir_codegen::pipelines::register_passes();
    let stage = detect::stage(&session, &mut module, stage)?;
    compile_module(&session, &mut module, (stage, &placement), options, Report::default(), check)
}

/// Returns true if a text can be parsed as a module and is one that the dialects accept. Upstream's parser may not survive it.
#[must_use]
pub fn parses(text: &str) -> bool {
    Session::new().parse(text).is_ok()
}

fn compile_module(
    session: &Session,
    module: &mut Module<'_>,
    (from, placement): (&Stage, &Placement),
    options: &Options,
    mut report: Report,
    check: Check<'_>,
) -> Result<Compiled, Error> {
    dynamlir_passes::register_all();
    dynamlir_codegen::pipelines::register_passes();
    write_format(module_op(module));
    let is_gpu = placement.target.is_gpu();
    let linalg = Stage::of("linalg");
    if is_gpu && from.is_after(linalg) {
        return Err(Error::Stage("the kernels are the CPU's already, and the module asks for a GPU's".into()));
    }
    let dumper = Dumper::new(options.dump.as_deref())?;
    dumper.stage(from, module)?;
    if let Err(error) = placement.runs_here() {
        // The module can still be dumped on this machine.
        return lower_for_dump(session, module, from, &dumper, check).and(Err(error));
    }
    let from = specialise(session, module, from, options, &dumper, &mut report, check)?;
    advance(session, module, (from, linalg), &dumper, &mut report, check)?;
    report.decisions.extend(session.take_decisions());
    let planned = plans(module_op(module))?;
    if is_gpu {
        alignment::note(module_op(module), planned.iter().map(|(_, (plan, _), _)| plan));
    }
    let mut names: Vec<String> = Vec::new();
    for kernel in planned.iter().flat_map(|(_, (plan, _), _)| &plan.kernels) {
        if !names.contains(&kernel.name) {
            names.push(kernel.name.clone());
        }
    }
    report.kernels.clone_from(&names);

    // A dump shows every kernel; a module past linalg no longer has the text that the cache uses as key.
    let cached = !(options.no_cache || dumper.is_on() || from.is_after(linalg));
    let mut found = if cached { take_known(module_op(module), placement, &mut report) } else { Taken::default() };
    report.kernels_reused = found.known.len();
    let missing: Vec<String> = names.iter().filter(|name| !found.known.iter().any(|(known, _)| known == *name)).cloned().collect();
    if !missing.is_empty() {
        let made: Vec<(String, cache::Code)> = if is_gpu {
            let made = gpu::generate(module_op(module), &missing, placement, &dumper, &mut report, check)?;
            made.into_iter().map(|(name, kernel)| (name, cache::Code::Device(kernel))).collect()
        } else {
            let made = generate(session, module, (from, &missing), options, &dumper, &mut report, check)?;
            made.into_iter().map(|(name, kernel)| (name, cache::Code::Host(kernel))).collect()
        };
        for (name, kernel) in made {
            if let Some((_, key)) = found.keys.iter().find(|(known, _)| *known == name) {
                let own = report.decisions.iter().filter(|decision| decision.site.what == name);
                cache::keep(key.clone(), kernel.clone(), own.cloned().collect());
            }
            found.known.push((name, kernel));
        }
    }
    // Those about kernels come last, in the order of the kernels, whichever thread has compiled them.
    report.decisions = report.decisions.sort_by_key(|decision| names.iter().position(|name| *name == decision.site.what));
    let code: HashMap<String, cache::Code> = found.known.into_iter().collect();
    let entries = planned.into_iter().map(|(name, (plan, open), report)| {
        let kernels = plan.kernels.iter().map(|kernel| code.get(&kernel.name).cloned()).collect::<Option<_>>();
        let kernels = kernels.ok_or_else(|| Error::Plan("a launch names a kernel that does not exist".into()))?;
        Ok(Entry { name, plan, open, kernels: cache::together(kernels), report })
    });
    Ok(Compiled { entries: entries.collect::<Result<_, Error>>()?, report })
}

/// Replaces symbols by the given values, if any. This happens at stage kernels, the last at which passes support expressions. Returns the
/// stage that the module is at afterwards.
fn specialise<'a>(
    session: &Session,
    module: &mut Module<'_>,
    from: &'a Stage,
    options: &Options,
    dumper: &Dumper,
    report: &mut Report,
    check: Check<'_>,
) -> Result<&'a Stage, Error> {
    if options.symbols.is_empty() {
        return Ok(from);
    }
    let kernels = Stage::of("kernels");
    if from.is_after(kernels) {
        return Err(Error::Stage("sizes are memory's already: symbols have values up to stage kernels".into()));
    }
    advance(session, module, (from, kernels), dumper, report, check)?;
    let values: Vec<String> = options.symbols.iter().map(|(symbol, value)| format!("{symbol}={value}")).collect();
    let pipeline = format!("builtin.module(dynamo-at{{symbols={}}})", values.join(","));
    session.run_timed(module, &pipeline, &mut |pass, seconds| report.time_pass(pass, seconds))?;
    Ok(kernels)
}

/// The name, plan and report of each entry.
fn plans(module: Op) -> Result<Vec<(String, OpenPlan, EntryReport)>, Error> {
    let planned = |entry: Op| {
        let (plan, open) = plan::read(module, entry)?;
        let (name, report) = (entry.symbol().unwrap_or_default(), EntryReport::of(entry, &plan));
        Ok((name, (plan, open), report))
    };
    let planned: Vec<_> = entries(module).into_iter().map(planned).collect::<Result<_, Error>>()?;
    if planned.is_empty() { Err(Error::Plan("no function has the attribute dynamo.entry".into())) } else { Ok(planned) }
}

/// Kernels found in the cache, and the keys of those that were not.
#[derive(Default)]
struct Taken {
    known: Vec<(String, cache::Code)>,
    keys: Vec<(String, String)>,
}

/// Writes all stages of a module for another machine, down to LLVM IR, if dumping is on.
fn lower_for_dump(session: &Session, module: &mut Module<'_>, from: &Stage, dumper: &Dumper, check: Check<'_>) -> Result<(), Error> {
    if !dumper.is_on() {
        return Ok(());
    }
    advance(session, module, (from, Stage::of("llvm")), dumper, &mut Report::default(), check)?;
    let Some(kernels) = kernels_module(module_op(module)) else { return Ok(()) };
    let names = kernels.body().map(Block::ops).unwrap_or_default().into_iter().filter(|op| ops::KERNEL.is_on(*op)).filter_map(Op::symbol);
    let settings = dynamlir_codegen::Options { kernels: names.collect(), ..dynamlir_codegen::Options::default() };
    let text = to_llvm_ir(kernels, &settings).map_err(|source| Error::Codegen {
        kernels: settings.kernels.join(", "),
        source,
        diagnostics: session.take_diagnostics(),
    })?;
    dumper.write("09-kernels.ll", || text)
}

/// Removes the bodies of the kernels that are in the cache.
fn take_known(module: Op, placement: &Placement, report: &mut Report) -> Taken {
    let mut taken = Taken::default();
    let made_for = placement.key(module);
    for func in kernels(module).into_iter().filter(|op| ops::KERNEL.is_on(*op)) {
        let (Some(name), key) = (func.symbol(), cache::key(func, &made_for)) else { continue };
        match cache::find(&key) {
            Some((kernel, decisions)) => {
                let site = Site { what: name.clone(), location: func.loc().place() };
                report.decisions.extend(decisions.into_iter().map(|decision| Decision { site: site.clone(), ..decision }));
                taken.known.push((name, kernel));
                declare(func);
            }
            None => taken.keys.push((name, key)),
        }
    }
    taken
}

/// Generates machine code for the kernels that are not in the cache, from the stage after `from` on.
fn generate(
    session: &Session,
    module: &mut Module<'_>,
    (from, names): (&Stage, &[String]),
    options: &Options,
    dumper: &Dumper,
    report: &mut Report,
    check: Check<'_>,
) -> Result<Vec<(String, Kernel)>, Error> {
    let (linalg, llvm) = (Stage::of("linalg"), Stage::of("llvm"));
    let is_later = from.is_after(linalg);
    let start = Instant::now();
    // A dump shows all kernels of a stage in one file, and at a later stage kernels may share definitions.
    let threads = if dumper.is_on() || is_later { 1 } else { options.threads.unwrap_or_else(parts::threads) };
    let parts = parts::split(session, module_op(module), names, threads)?;
    report.time("split", start.elapsed().as_secs_f64());
    let here = |report: &mut Report| {
        advance(session, module, (if is_later { from } else { linalg }, llvm), dumper, report, check)?;
        check()?;
        let kernels = kernels_module(module_op(module)).ok_or_else(|| Error::Plan("there is no module @kernels".into()))?;
        parts::object(kernels, &parts[0].names, dumper, session, report)
    };
    let objects = parts::compile(&parts, dumper, session.trusts(), report, here)?;
    for object in &objects {
        for (name, text) in [("09-kernels.ll", &object.ir), ("10-kernels.opt.ll", &object.optimized_ir), ("11-kernels.s", &object.assembly)]
        {
            if let Some(text) = text {
                dumper.write(name, || text.clone())?;
            }
        }
    }
    let start = Instant::now();
    let objects: Vec<&[u8]> = objects.iter().map(|object| &object.object[..]).collect();
    let jit = Jit::link(&objects).map_err(|error| Error::Link(error.to_string()))?;
    let linked = names
        .iter()
        .map(|name| {
            debug_assert!(!name.ends_with(packed::SUFFIX));
            jit.kernel(name).map(|kernel| (name.clone(), kernel)).map_err(|error| Error::Link(error.to_string()))
        })
        .collect();
    report.time("link", start.elapsed().as_secs_f64());
    linked
}
