//! Tests the house rules: the map in ARCHITECTURE.md is true, dependencies point one way, unsafe code is fenced, every file states its
//! purpose, every pass has a test.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot read the tree has failed")]

mod common;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

use common::{extension, files, none, read, root, with_extension};
use serde_json::Value;

/// Crates that may contain unsafe code; all others forbid it.
const MAY_BE_UNSAFE: &[&str] =
    &["cpython-abi", "dialect", "torch-abi", "trails", "runtime", "autograd", "codegen", "cuda", "cuda-mock", "python", "opt"];

/// The largest size of a source file, in bytes. Bytes, since a limit of lines is met by longer ones.
const BYTES: usize = 32_000;

/// The crate table of ARCHITECTURE.md: each crate and the crates it may use.
fn table() -> BTreeMap<String, BTreeSet<String>> {
    let text = read("ARCHITECTURE.md");
    let from_head = text.lines().skip_while(|line| !line.starts_with("| crate |"));
    from_head
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|row| {
            let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
            let [name, _, uses] = cells[..] else { panic!("a row of the crate table has three cells: {row}") };
            let uses = uses.split(',').map(str::trim).filter(|used| *used != "–").map(str::to_owned).collect();
            (name.trim_matches('`').to_owned(), uses)
        })
        .collect()
}

/// All crates that a crate may use, directly or indirectly.
fn closure(table: &BTreeMap<String, BTreeSet<String>>, name: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![name.to_owned()];
    while let Some(next) = open.pop() {
        for used in table.get(&next).unwrap_or_else(|| panic!("the crate table lacks {next}")) {
            if found.insert(used.clone()) {
                open.push(used.clone());
            }
        }
    }
    found
}

#[test]
fn the_map_names_every_crate() {
    let named: BTreeSet<String> = table().into_keys().collect();
    let there: BTreeSet<String> = fs::read_dir(root().join("crates"))
        .expect("crates/ is readable")
        .flatten()
        .filter(|entry| entry.path().join("Cargo.toml").is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(named, there, "the crate table of ARCHITECTURE.md (left) and crates/ (right) differ");
}

#[test]
fn dependencies_point_one_way() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version=1"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    let table = table();
    let folder = |path: &str| Path::new(path).file_name().expect("a folder").to_string_lossy().into_owned();
    let mut wrong = Vec::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let manifest = package["manifest_path"].as_str().expect("a path");
        let name = folder(manifest.trim_end_matches("/Cargo.toml"));
        let allowed = closure(&table, &name);
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            // A dependency with a path is one of our crates; dev dependencies do not affect the program's structure.
            let Some(path) = dependency["path"].as_str().filter(|_| dependency["kind"] != "dev") else { continue };
            if !allowed.contains(&folder(path)) {
                wrong.push(format!("{name} uses {}", folder(path)));
            }
        }
    }
    none(&wrong, "not in the crate table of ARCHITECTURE.md");
}

/// Returns true if a file starts in the way that files of its kind must.
fn introduces_itself(path: &str, text: &str) -> bool {
    match extension(path) {
        "rs" => text.starts_with("//!"),
        "py" => {
            let rest = if text.starts_with("#!") { text.split_once('\n').map_or("", |(_, rest)| rest) } else { text };
            rest.starts_with("\"\"\"") || rest.starts_with("r\"\"\"")
        }
        _ => {
            let name = path.rsplit('/').next().unwrap_or(path);
            text.starts_with(&format!("//===- {name} - ")) && text.contains("// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception")
        }
    }
}

#[test]
fn every_file_says_what_it_is_for() {
    let sources = with_extension(&["rs", "py", "cpp", "h", "td"]);
    let silent: Vec<_> = sources.into_iter().filter(|path| !introduces_itself(path, &read(path))).collect();
    none(&silent, "these files do not start with `//!`, a docstring, or LLVM's header comment");
}

#[test]
fn unsafe_code_is_fenced() {
    let fenced = table().into_keys().filter(|name| !MAY_BE_UNSAFE.contains(&name.as_str()));
    let roots = fenced.flat_map(|name| ["lib.rs", "main.rs"].map(|file| format!("crates/{name}/src/{file}")));
    let there = roots.filter(|path| root().join(path).is_file());
    let open: Vec<_> = there.filter(|path| !read(path).contains("#![forbid(unsafe_code)]")).collect();
    none(&open, "only the crates in MAY_BE_UNSAFE may be; add #![forbid(unsafe_code)]");
}

#[test]
fn source_files_are_short() {
    let mut long = Vec::new();
    for path in with_extension(&["rs", "py", "pyi", "cpp", "h", "td", "mlir", "cmake", "txt"]) {
        let bytes = read(&path).len();
        if bytes > BYTES {
            long.push(format!("{path}: {bytes} bytes of {BYTES}"));
        }
    }
    none(&long, "split these files, each about one idea");
}

/// The part of a Rust file before its tests, without comments.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let before_tests = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]"));
    before_tests.enumerate().map(|(number, line)| (number + 1, line)).filter(|(_, line)| !line.trim_start().starts_with("//"))
}

#[test]
fn names_of_operations_are_constants() {
    // An operation name misspelled in a string would silently never match.
    let dialects = ["arith", "bufferization", "builtin", "dynamo", "func", "gpu", "linalg", "math", "memref", "scf", "tensor", "vector"];
    let names_an_operation = |literal: &str| {
        let (dialect, rest) = literal.split_once('.').unwrap_or_default();
        let is_name =
            !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_.".contains(&byte));
        dialects.contains(&dialect) && is_name
    };
    let of_passes = ["passes", "driver", "codegen", "nvptx", "import"].map(|name| format!("crates/{name}/src/"));
    let mut found = Vec::new();
    for path in with_extension(&["rs"]) {
        // Schedules are text of the transform dialect.
        if !of_passes.iter().any(|folder| path.starts_with(folder)) || path.ends_with("schedule/text.rs") || path.ends_with("_tests.rs") {
            continue;
        }
        let text = read(&path);
        for (number, line) in code(&text) {
            if line.split('"').skip(1).step_by(2).any(names_an_operation) {
                found.push(format!("{path}:{number}: {}", line.trim()));
            }
        }
    }
    none(&found, "take these names from dynamlir_dialect::ops or ::upstream");
}

#[test]
fn imports_ask_nothing_of_the_frame_that_runs() {
    // The methods of pyo3 call the `__import__` of the running code, which may be the user's own, or missing.
    let mut found = Vec::new();
    for path in with_extension(&["rs"]).into_iter().filter(|path| path.starts_with("crates/") && !path.starts_with("crates/tidy/")) {
        let text = read(&path);
        for (number, line) in code(&text).filter(|(_, line)| line.contains(".import(")) {
            found.push(format!("{path}:{number}: {}", line.trim()));
        }
    }
    none(&found, "import modules by dynamlir_cpython_abi::import or ::import_once");
}

#[test]
fn no_path_of_one_machine() {
    // Written in parts, since this file is searched too.
    let foreign = [["/wo", "rk/"], ["/t", "mp/"], ["/ho", "me/"], ["/ro", "ot/"]].map(|parts| parts.concat());
    let inside_a_path = |byte: u8| byte.is_ascii_alphanumeric() || b"._-)}$".contains(&byte);
    let mut found = Vec::new();
    for path in files() {
        // Files that are not text are skipped.
        let Ok(text) = fs::read_to_string(root().join(&path)) else { continue };
        for (number, line) in text.lines().enumerate() {
            let starts = |at: usize| at == 0 || !inside_a_path(line.as_bytes()[at - 1]);
            if foreign.iter().any(|prefix| line.match_indices(prefix.as_str()).any(|(at, _)| starts(at))) {
                found.push(format!("{path}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    none(&found, "absolute paths of one machine");
}

#[test]
fn every_pass_has_a_test() {
    // The names are in the Pass values: `name: "dynamo-…"`.
    let mut names = BTreeSet::new();
    for path in
        with_extension(&["rs"]).into_iter().filter(|path| path.starts_with("crates/passes/src/") || path.starts_with("crates/nvptx/src/"))
    {
        let text = read(&path);
        let after = text.split("name: \"dynamo-").skip(1);
        names.extend(after.filter_map(|rest| rest.split_once('"')).map(|(name, _)| format!("dynamo-{name}")));
    }
    assert!(names.len() >= 10, "passes are declared in another form now: {names:?}");
    let mut run = BTreeSet::new();
    for path in with_extension(&["mlir", "test"]).into_iter().filter(|path| path.starts_with("test/")) {
        let text = read(&path);
        for line in text.lines().filter(|line| line.contains("RUN:")) {
            let words = line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
            run.extend(words.map(|word| word.trim_start_matches('-').to_owned()));
        }
    }
    none(&names.difference(&run).cloned().collect::<Vec<_>>(), "no RUN line below test/ names these passes");
}

#[test]
fn the_dialects_documentation_is_fresh() {
    let output = Command::new(root().join("scripts/docs")).arg("--check").output().expect("scripts/docs runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
