//! Runs the pipelines from stage to stage.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use dynamlir_codegen::pipelines::{STAGES, Stage};
use dynamlir_dialect::{
    Session,
    context::{module_op, module_text},
};
use melior::ir::Module;

use crate::{Error, Report};

/// Writes each stage as a numbered file, if requested.
pub struct Dumper {
    folder: Option<PathBuf>,
}

impl Dumper {
    /// Dumps into `folder`, which is created if necessary.
    pub fn new(folder: Option<&Path>) -> Result<Self, Error> {
        if let Some(folder) = folder {
            fs::create_dir_all(folder).map_err(|error| Error::File { path: folder.display().to_string(), error })?;
        }
        Ok(Self { folder: folder.map(Path::to_owned) })
    }
    /// Returns true if dumping is on.
    pub fn is_on(&self) -> bool {
        self.folder.is_some()
    }
    /// Writes one file.
    pub fn write(&self, name: &str, text: impl FnOnce() -> String) -> Result<(), Error> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let path = folder.join(name);
        fs::write(&path, text()).map_err(|error| Error::File { path: path.display().to_string(), error })
    }
    /// Writes a stage.
    pub fn stage(&self, stage: &Stage, module: &Module<'_>) -> Result<(), Error> {
        self.write(&format!("{}.mlir", stage.label()), || module_text(module) + "\n")
    }
}

/// Runs the pipelines of the stages after `from`, up to and including `to`. `check` is called between stages and may end the compilation.
pub fn advance(
    session: &Session,
    module: &mut Module<'_>,
    (from, to): (&Stage, &Stage),
    dumper: &Dumper,
    report: &mut Report,
    check: &mut dyn FnMut() -> Result<(), Error>,
) -> Result<(), Error> {
    let mut before = None;
    for stage in from.up_to(to) {
        check()?;
        if stage.name == "prims" {
            before = Some(crate::report::aten_calls(module_op(module)));
        }
        if let Some(pipeline) = stage.pipeline() {
            let start = Instant::now();
            session.run_timed(module, &pipeline, &mut |pass, seconds| report.time_pass(pass, seconds))?;
            report.time(stage.name, start.elapsed().as_secs_f64());
        }
        if stage.name == "kernels" {
            count(before.take().unwrap_or_default(), report, module);
        }
        dumper.stage(stage, module)?;
    }
    Ok(())
}

/// The remaining calls are extern; the others have become generated code.
fn count(before: std::collections::BTreeMap<String, usize>, report: &mut Report, module: &Module<'_>) {
    report.extern_ops = crate::report::aten_calls(module_op(module));
    report.generated = before
        .into_iter()
        .map(|(schema, calls)| {
            let left = report.extern_ops.get(&schema).copied().unwrap_or(0);
            (schema, calls.saturating_sub(left))
        })
        .filter(|(_, calls)| *calls > 0)
        .collect();
}

/// The stage with this name (`linalg`) or label (`05-linalg`).
pub fn known(name: &str) -> Option<&'static Stage> {
    STAGES.iter().find(|stage| stage.name == name || stage.label() == name)
}

/// `linalg` for `…/05-linalg.mlir`; `None` if the file name does not contain a stage.
pub fn of_file(path: &str) -> Option<&'static str> {
    known(Path::new(path).file_stem()?.to_str()?).map(|stage| stage.name)
}

/// All stages in order: the label used in dump file names, and the pipeline that leads there from the stage before.
pub fn pipelines() -> Vec<(String, Option<String>)> {
    STAGES.iter().map(|stage| (stage.label(), stage.pipeline())).collect()
}
