//! `dynamlir-lsp-server`: `mlir-lsp-server` with the dynamo dialect, which also shows the dialect's documentation.
//!
//! MLIR keeps no documentation of operations at run time, so upstream's server has none to show. This program runs upstream's server in a
//! child process, passes every message on as it is, and adds the documentation to the answers about operations of our dialect:
//!
//! ```text
//!            ┌──────── dynamlir-lsp-server ────────┐
//!  editor ──►│ notes the questions "textDocument/  ├──► the same program with --upstream
//!         ◄──┤ hover"; adds to their answers       │◄──
//!            └─────────────────────────────────────┘
//! ```
//!
//! Going to the definition of an operation opens the line of Python that it comes from: upstream's server follows locations.

mod hover;
mod messages;
#[path = "../registered.rs"]
mod registered;

use std::{
    env,
    io::{self, BufReader, Write},
    process::{Command, ExitCode, Stdio, exit},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use dynamlir_dialect::tools;
use hover::Hovers;
use messages::{Message, read};

/// The first argument of the child process.
const UPSTREAM: &str = "--upstream";

fn main() -> ExitCode {
    let mut args: Vec<String> = env::args().collect();
    if args.get(1).is_some_and(|arg| arg == UPSTREAM) {
        args.remove(1);
        registered::register_all();
        exit(tools::lsp_server(args));
    }
    match serve(&args) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("dynamlir-lsp-server: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs upstream's server between the editor and us until it ends.
fn serve(args: &[String]) -> io::Result<ExitCode> {
    let mut child = Command::new(env::current_exe()?)
        .arg(UPSTREAM)
        .args(&args[1.min(args.len())..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| io::Error::other(format!("cannot start the server: {error}")))?;
    let (questions, answers) = (child.stdin.take().expect("is a pipe"), child.stdout.take().expect("is a pipe"));
    let hovers = Arc::new(Mutex::new(Hovers::default()));

    let asked = Arc::clone(&hovers);
    // Not joined: it waits for the editor, which may keep its end open after the server has gone.
    thread::spawn(move || {
        pass_on(io::stdin(), questions, |text| {
            asked.lock().unwrap_or_else(PoisonError::into_inner).ask(text);
            None
        })
    });
    pass_on(answers, io::stdout(), |text| hovers.lock().unwrap_or_else(PoisonError::into_inner).answer(text))?;
    let code = child.wait()?.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Passes messages on until there are no more, each as `change` returns it, or else as it is. Whatever is not a message is passed on as
/// well, for the receiver to complain about.
fn pass_on(from: impl io::Read, mut to: impl Write, mut change: impl FnMut(&[u8]) -> Option<Vec<u8>>) -> io::Result<()> {
    let mut from = BufReader::new(from);
    loop {
        match read(&mut from)? {
            Message::End => return Ok(()),
            Message::Framed { header, body } => {
                if let Some(changed) = change(&body) {
                    messages::write(&mut to, &changed)?;
                } else {
                    to.write_all(&header)?;
                    to.write_all(&body)?;
                }
            }
            Message::Other(bytes) => to.write_all(&bytes)?,
        }
        to.flush()?;
    }
}
