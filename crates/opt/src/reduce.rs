//! `dynamlir-reduce`: makes a module that fails smaller, as long as a program says that it still fails.

use std::{
    env,
    error::Error,
    fs,
    io::{self, Read, Write},
    path::PathBuf,
    process::{Command, ExitCode},
};

use clap::Parser;
use dynamlir_reduce::reduce;

/// Makes a module that fails smaller.
///
/// The program given as --test is called with the path of a module, and exits with 1 if the module still fails, as for mlir-reduce; every
/// other exit status means that the failure is gone. Every module that it is called with is valid.
#[derive(Parser)]
#[command(name = "dynamlir-reduce", version, after_help = "Example: dynamlir-reduce 00-aten.mlir --test ./still-crashes.sh -o small.mlir")]
struct Args {
    /// The module; - for standard input.
    input: PathBuf,
    /// The program that exits with 1 if the module at the path in its last argument still fails.
    #[arg(long)]
    test: PathBuf,
    /// An argument of that program, before the path; may be repeated.
    #[arg(long, allow_hyphen_values = true)]
    test_arg: Vec<String>,
    /// Where the reduced module goes; standard output if not given.
    #[arg(short)]
    output: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dynamlir-reduce: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let mut text = String::new();
    if args.input.as_os_str() == "-" {
        io::stdin().read_to_string(&mut text)?;
    } else {
        text = fs::read_to_string(&args.input).map_err(|error| format!("{}: {error}", args.input.display()))?;
    }
    let folder = tempfile::tempdir()?;
    let module = folder.path().join("module.mlir");
    // A bare name means a file here, not a program on PATH: what it does should not depend on what is installed.
    let program = env::current_dir()?.join(&args.test);
    let mut broken = None;
    let mut fails = |text: &str| {
        let status = fs::write(&module, text).and_then(|()| Command::new(&program).args(&args.test_arg).arg(&module).output());
        match status {
            Ok(output) => output.status.code() == Some(1),
            Err(error) => {
                broken.get_or_insert(error);
                false
            }
        }
    };
    let reduced = reduce(&text, &mut fails);
    if let Some(error) = broken {
        return Err(format!("cannot run {}: {error}", program.display()).into());
    }
    let reduced = reduced?;
    eprintln!("{} of {} operations are left, after {} tests", reduced.after, reduced.before, reduced.tried);
    let text = reduced.text + "\n";
    match &args.output {
        Some(path) => fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?,
        None => io::stdout().write_all(text.as_bytes())?,
    }
    Ok(())
}
