//! Determines the stage of a text: checks the stage that the caller states, or detects it.
//!
//! | stage | detected by |
//! |---|---|
//! | aten | the entries work on `!dynamo.tensor` |
//! | functional, prims, kernels | they work on tensors; the contract passes distinguish these stages, and launches mean kernels |
//! | planned and later | they work on memrefs; the kernels distinguish them: primitives, linalg on tensors, loops, memrefs, LLVM |
//!
//! Adjacent stages may look the same, for example prims if every op is extern. Then the first of them is chosen: the passes between them do
//! not change what is already done.

use dynamlir_codegen::pipelines::{STAGES, Stage};
use dynamlir_dialect::{
    Session,
    context::module_op,
    ir::{Block, Op, Type},
    ops::{self, DynamoOp},
    program::{entries, kernels},
    upstream::{linalg, llvm, scf},
};
use melior::ir::Module;

use crate::{Error, plan::attributes::location, stages::known};

/// The stages that have a contract pass: those on tensors.
fn contracts() -> impl Iterator<Item = (&'static str, &'static str)> {
    STAGES.iter().filter_map(|stage| Some((stage.name, stage.contract?)))
}

/// The stage that the caller states, if the text can be at it. Otherwise the first stage that the text can be at, or the last one if all
/// kernels are on memory.
pub fn stage(session: &Session, module: &mut Module<'_>, said: Option<&str>) -> Result<&'static Stage, Error> {
    let said = said.map(|name| known(name).ok_or_else(|| Error::Stage(format!("there is no stage '{name}', there are {}", list(STAGES)))));
    let said = said.transpose()?;
    let candidates = match level(module_op(module))? {
        Level::Tensors => on_tensors(session, module, said)?,
        Level::Mutable => between("aten", "aten"),
        Level::Nothing => STAGES,
        Level::Memory => on_memory(module_op(module))?,
    };
    let fits = said.map(|said| candidates.contains(said));
    let bufferized = candidates.last().filter(|stage| stage.name == "bufferized");
    match (said, bufferized.or(candidates.first())) {
        (Some(said), Some(_)) if fits == Some(true) => Ok(said),
        (Some(said), _) => Err(Error::Stage(format!("the text is not at stage {}, it looks like {}", said.name, list(candidates)))),
        (None, Some(first)) => Ok(first),
        (None, None) => Err(Error::Stage("the text is at no stage".to_owned())),
    }
}

fn list(stages: &[Stage]) -> String {
    stages.iter().map(|stage| stage.name).collect::<Vec<_>>().join(", ")
}

/// The stages from one to another, both included.
fn between(from: &str, to: &str) -> &'static [Stage] {
    &STAGES[Stage::of(from).number()..=Stage::of(to).number()]
}

/// The kind of values that an entry works on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Mutable,
    Tensors,
    Memory,
    Nothing,
}

impl Level {
    /// Describes it as text.
    fn describe(self) -> &'static str {
        match self {
            Self::Mutable => "tensors that are written in place",
            Self::Tensors => "tensors",
            Self::Memory => "memory",
            Self::Nothing => "nothing",
        }
    }
}

/// The kind of values that all entries work on; an entry that works on nothing fits any stage.
fn level(module: Op) -> Result<Level, Error> {
    let entries = entries(module);
    if entries.is_empty() {
        return Err(Error::Stage("no function has the attribute dynamo.entry, so there is no graph".to_owned()));
    }
    let mut told: Option<(Op, Level)> = None;
    for entry in entries {
        let own = level_of(entry);
        match told {
            _ if own == Level::Nothing => {}
            Some((first, level)) if level != own => {
                let [first, second] = [first, entry].map(|entry| format!("@{} ({})", entry.symbol().unwrap_or_default(), location(entry)));
                let (level, own) = (level.describe(), own.describe());
                return Err(Error::Stage(format!("the entries are at different stages: {first} works on {level}, {second} on {own}")));
            }
            Some(_) => {}
            None => told = Some((entry, own)),
        }
    }
    Ok(told.map_or(Level::Nothing, |(_, level)| level))
}

fn level_of(entry: Op) -> Level {
    let mut types: Vec<Type> = entry.body().map(Block::args).unwrap_or_default().iter().map(|arg| arg.ty()).collect();
    entry.walk(&mut |op| types.extend(op.results().iter().map(|result| result.ty())));
    let any = |is: fn(Type) -> bool| types.iter().any(|ty| is(*ty));
    match () {
        () if any(Type::is_mutable) => Level::Mutable,
        () if any(Type::is_memref) => Level::Memory,
        () if any(Type::is_tensor) => Level::Tensors,
        () => Level::Nothing,
    }
}

/// The stage whose contract is stated, or the first one whose contract holds.
fn on_tensors(session: &Session, module: &mut Module<'_>, said: Option<&Stage>) -> Result<&'static [Stage], Error> {
    let mut holds = |name: &str, pass: &str| {
        let outcome = session.run(module, &format!("builtin.module({pass})"));
        outcome.map(|()| between(name, name)).map_err(Error::from)
    };
    if let Some((name, pass)) = contracts().find(|(name, _)| said.is_some_and(|said| said.name == *name)) {
        return holds(name, pass);
    }
    if said.is_some() {
        return Ok(between("functional", "kernels"));
    }
    let mut reasons = Vec::new();
    for (name, pass) in contracts() {
        match holds(name, pass) {
            Ok(stage) => return Ok(stage),
            Err(error) => reasons.push(format!("not {name}: {}", error.to_string().trim())),
        }
    }
    Err(Error::Stage(format!("the text keeps to the contract of no stage on tensors\n{}", reasons.join("\n"))))
}

/// The stages at which all kernels can be.
fn on_memory(module: Op) -> Result<&'static [Stage], Error> {
    let mut common = between("planned", "llvm");
    for kernel in kernels(module).into_iter().filter(|op| op.body().is_some()) {
        let own = of_kernel(kernel);
        if common.iter().all(|stage| !own.contains(stage)) {
            let name = kernel.symbol().unwrap_or_default();
            return Err(Error::Stage(format!("kernel @{name} looks like {}, the others like {}", list(own), list(common))));
        }
        // Both are ranges of the same list: the later start, the earlier end.
        let (start, end) = (own[0].number().max(common[0].number()), own[own.len() - 1].number().min(common[common.len() - 1].number()));
        common = &STAGES[start..=end];
    }
    Ok(common)
}

fn of_kernel(kernel: Op) -> &'static [Stage] {
    if kernel.is(llvm::FUNC) {
        return between("llvm", "llvm");
    }
    let (mut tensors, mut primitives, mut generics, mut loops) = (false, false, false, false);
    kernel.walk(&mut |op| {
        tensors |= op.results().iter().any(|result| result.ty().is_tensor());
        // Operations on windows stay until they are scheduled.
        let stays = matches!(DynamoOp::of(op), None | Some(DynamoOp::Attention(_) | DynamoOp::Convolution(_) | DynamoOp::MaxPool(_)));
        primitives |= !stays;
        generics |= op.is_of(linalg::DIALECT);
        loops |= op.is_of(scf::DIALECT);
    });
    match () {
        // Kernels that write by index, or multiply matrices, work on memory long before the others do.
        () if !tensors => between("linalg", "bufferized"),
        () if primitives || !generics => between("planned", "planned"),
        () if loops || ops::UNSCHEDULED.is_on(kernel) => between("scheduled", "scheduled"),
        () => between("linalg", "scheduled"),
    }
}
