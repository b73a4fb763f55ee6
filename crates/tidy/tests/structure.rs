//! The structure inside crates and inside the Python package: methods per type, files per folder, cycles of imports.
//!
//! Where the tree is not yet as it should be, a number is stored that may only fall.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot read the tree has failed")]

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{none, ratchet, read, with_extension};
use petgraph::{algo::tarjan_scc, graphmap::DiGraphMap};
use syn::{ImplItem, Item, Type};

/// The most methods of one type of a crate, over all its `impl` blocks.
const METHODS: usize = 120;

/// Types with more methods, each with their number, which may only fall.
const LARGE_TYPES: &[(&str, &str, usize)] = &[];

/// The most files directly in one folder.
const FILES: usize = 60;

/// Folders with more files, each with their number, which may only fall.
const LARGE_FOLDERS: &[(&str, usize)] = &[];

/// The number of Python modules in the largest cycle of imports, imports within functions included. May only fall; 5 is the target.
const PYTHON_CYCLE: usize = 2;

/// The number of imports within Python functions that do not say why they are there. May only fall.
const UNEXPLAINED_IMPORTS: usize = 0;

/// Crates with a cycle between their folders, each with the number of folders in it. May only fall.
const FOLDER_CYCLES: &[(&str, usize)] = &[("nvptx", 2)];

/// The crate that a path below `crates/` belongs to, and the rest of the path below its `src`.
fn in_crate(path: &str) -> Option<(&str, &str)> {
    path.strip_prefix("crates/")?.split_once("/src/")
}

/// The items of a file and of its inline modules, except tests.
fn items(list: Vec<Item>) -> Vec<Item> {
    let is_test = |attributes: &[syn::Attribute]| attributes.iter().any(|attribute| attribute.path().is_ident("cfg"));
    let mut found = Vec::new();
    for item in list {
        match item {
            Item::Mod(module) if !is_test(&module.attrs) => {
                found.extend(module.content.map(|(_, inner)| items(inner)).unwrap_or_default());
            }
            item => found.push(item),
        }
    }
    found
}

#[test]
fn types_have_few_methods() {
    let mut methods: BTreeMap<(String, String), usize> = BTreeMap::new();
    for path in with_extension(&["rs"]) {
        let Some((name, _)) = in_crate(&path) else { continue };
        let file = syn::parse_file(&read(&path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        for item in items(file.items) {
            let Item::Impl(item) = item else { continue };
            let Type::Path(of) = &*item.self_ty else { continue };
            let of = of.path.segments.last().expect("a path has a segment").ident.to_string();
            let count = item.items.iter().filter(|item| matches!(item, ImplItem::Fn(_))).count();
            *methods.entry((name.to_owned(), of)).or_default() += count;
        }
    }
    let stored = |name: &str, of: &str| LARGE_TYPES.iter().find(|(krate, ty, _)| *krate == name && *ty == of).map(|(.., count)| *count);
    for ((name, of), count) in &methods {
        match stored(name, of) {
            Some(stored) => ratchet(stored, *count, &format!("methods of {name}'s {of}"), &[]),
            None => {
                assert!(
                    *count <= METHODS,
                    "{of} of crates/{name} has {count} methods, of {METHODS}: give a part of them a type of its own"
                );
            }
        }
    }
    let idle = LARGE_TYPES
        .iter()
        .filter(|(name, of, _)| methods.get(&((*name).to_owned(), (*of).to_owned())).is_none_or(|count| *count <= METHODS));
    none(&idle.map(|(name, of, _)| format!("{name}: {of}")).collect::<Vec<_>>(), "no longer large: take these out of LARGE_TYPES");
}

#[test]
fn folders_have_few_files() {
    let mut folders: BTreeMap<String, usize> = BTreeMap::new();
    for path in with_extension(&["rs", "py", "cpp", "h", "td"]) {
        if let Some((folder, _)) = path.rsplit_once('/') {
            *folders.entry(folder.to_owned()).or_default() += 1;
        }
    }
    for (folder, count) in &folders {
        match LARGE_FOLDERS.iter().find(|(name, _)| name == folder) {
            Some((_, stored)) => ratchet(*stored, *count, &format!("files of {folder}"), &[]),
            None => assert!(*count <= FILES, "{folder} has {count} files, of {FILES}: sort them into folders"),
        }
    }
    let idle = LARGE_FOLDERS.iter().filter(|(folder, _)| folders.get(*folder).is_none_or(|count| *count <= FILES));
    none(&idle.map(|(folder, _)| (*folder).to_owned()).collect::<Vec<_>>(), "no longer large: take these out of LARGE_FOLDERS");
}

/// The strongly connected parts of a graph that have more than one node.
fn cycles<'a>(edges: &BTreeSet<(&'a str, &'a str)>) -> Vec<Vec<&'a str>> {
    let graph: DiGraphMap<&str, (), std::hash::RandomState> = edges.iter().map(|(from, to)| (*from, *to, ())).collect();
    let mut found: Vec<_> = tarjan_scc(&graph).into_iter().filter(|part| part.len() > 1).collect();
    for part in &mut found {
        part.sort_unstable();
    }
    found.sort_by_key(|part| std::cmp::Reverse(part.len()));
    found
}

/// The modules that a line imports, as paths from the package's root: `from ..aten import schema` in `capture.session` is `aten.schema` or `aten`.
fn imported(module: &str, is_package: bool, line: &str, modules: &BTreeSet<String>) -> Vec<String> {
    let Some((from, names)) = line.strip_prefix("from ").and_then(|rest| rest.split_once(" import ")) else { return Vec::new() };
    let base = if let Some(relative) = from.strip_prefix('.') {
        let up = relative.chars().take_while(|c| *c == '.').count();
        let mut parts: Vec<_> = module.split('.').filter(|part| !part.is_empty()).collect();
        let drop = up + usize::from(!is_package);
        parts.truncate(parts.len().saturating_sub(drop));
        parts.extend(relative[up..].split('.').filter(|part| !part.is_empty()));
        parts.join(".")
    } else if let Some(rest) = from.strip_prefix("dynamlir") {
        rest.trim_start_matches('.').to_owned()
    } else {
        return Vec::new();
    };
    let names = names.trim_matches(|c| c == '(' || c == ')').split(',').map(|name| name.trim().split(' ').next().unwrap_or_default());
    let mut found = Vec::new();
    for name in names.filter(|name| !name.is_empty()) {
        let inner = if base.is_empty() { name.to_owned() } else { format!("{base}.{name}") };
        if modules.contains(&inner) {
            found.push(inner);
        } else if modules.contains(&base) {
            found.push(base.clone());
        }
    }
    found
}

/// The statements of a Python file that import something, each in one line: its indentation, its text, the comment with it.
fn import_statements(text: &str) -> Vec<(usize, usize, String, bool)> {
    let lines: Vec<_> = text.lines().collect();
    let mut found = Vec::new();
    let (mut at, mut types_until) = (0, None);
    while at < lines.len() {
        let line = lines[at];
        let indent = line.len() - line.trim_start().len();
        let number = at + 1;
        at += 1;
        if line.trim().is_empty() {
            continue;
        }
        if types_until.is_some_and(|outer| indent <= outer) {
            types_until = None;
        }
        if line.trim_start().starts_with("if TYPE_CHECKING") {
            types_until = Some(indent);
        }
        let is_import = line.trim_start().starts_with("from ") && line.contains(" import ") || line.trim_start().starts_with("import ");
        if !is_import || types_until.is_some() {
            continue;
        }
        let commented = |line: &str| line.contains('#');
        let explained = commented(line) || number >= 2 && lines[number - 2].trim_start().starts_with('#');
        let mut whole = line.split('#').next().unwrap_or_default().trim().to_owned();
        while whole.contains('(') && !whole.contains(')') && at < lines.len() {
            whole.push_str(lines[at].split('#').next().unwrap_or_default().trim());
            at += 1;
        }
        found.push((number, indent, whole, explained));
    }
    found
}

/// The name of a module of the package by its path, and true for a package's `__init__`.
fn module(path: &str) -> Option<(String, bool)> {
    let inner = path.strip_prefix("python/dynamlir/")?.strip_suffix(".py")?;
    let is_package = inner == "__init__" || inner.ends_with("/__init__");
    let name = if is_package { inner.trim_end_matches("__init__").trim_end_matches('/') } else { inner };
    Some((name.replace('/', "."), is_package))
}

#[test]
fn python_modules_do_not_import_each_other() {
    let paths: Vec<_> = with_extension(&["py"]).into_iter().filter(|path| module(path).is_some()).collect();
    let modules: BTreeSet<String> = paths.iter().filter_map(|path| module(path)).map(|(name, _)| name).collect();
    let (mut edges, mut unexplained) = (Vec::new(), Vec::new());
    for path in &paths {
        let (name, is_package) = module(path).expect("a module");
        for (number, indent, line, explained) in import_statements(&read(path)) {
            edges.extend(imported(&name, is_package, &line, &modules).into_iter().map(|to| (name.clone(), to)));
            if indent > 0 && !explained {
                unexplained.push(format!("{path}:{number}: {line}"));
            }
        }
    }
    let edges: BTreeSet<_> = edges.iter().filter(|(from, to)| from != to).map(|(from, to)| (from.as_str(), to.as_str())).collect();
    assert!(edges.len() > 50, "imports are written in another form now: {edges:?}");
    let largest = cycles(&edges).into_iter().next().unwrap_or_default();
    ratchet(PYTHON_CYCLE, largest.len(), "Python modules in one cycle of imports", &[largest.join(", ")]);
    ratchet(UNEXPLAINED_IMPORTS, unexplained.len(), "imports within functions without a comment that says why", &unexplained);
}

#[test]
fn folders_of_a_crate_depend_one_way() {
    let mut edges: BTreeMap<String, BTreeSet<(String, String)>> = BTreeMap::new();
    let paths: Vec<_> = with_extension(&["rs"]).into_iter().filter(|path| in_crate(path).is_some()).collect();
    let top = |rest: &str| rest.split('/').next().unwrap_or_default().trim_end_matches(".rs").to_owned();
    let folders: BTreeSet<(String, String)> = paths
        .iter()
        .filter_map(|path| in_crate(path))
        .filter(|(_, rest)| rest.contains('/'))
        .map(|(name, rest)| (name.to_owned(), top(rest)))
        .collect();
    for path in &paths {
        let (name, rest) = in_crate(path).expect("a file of a crate");
        let from = top(rest);
        if !folders.contains(&(name.to_owned(), from.clone())) {
            continue;
        }
        let text = read(path);
        let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
        // `crate::x::y`, and `use crate::{x::y, z::{…}}`.
        let mut named: Vec<String> = Vec::new();
        for after in code.split("crate::").skip(1) {
            let Some(inner) = after.strip_prefix('{') else {
                named.push(after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect());
                continue;
            };
            let (mut depth, mut word) = (0, String::new());
            for c in inner.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => {
                        named.push(std::mem::take(&mut word));
                        continue;
                    }
                    _ => {}
                }
                if depth == 0 {
                    word.push(c);
                }
            }
            named.push(word);
        }
        for to in named.iter().filter_map(|path| path.trim().split("::").next()) {
            if to != from && folders.contains(&(name.to_owned(), to.to_owned())) {
                edges.entry(name.to_owned()).or_default().insert((from.clone(), to.to_owned()));
            }
        }
    }
    assert!(!edges.is_empty(), "crates refer to their folders in another form now");
    let mut cyclic = BTreeMap::new();
    for (name, edges) in &edges {
        let edges: BTreeSet<_> = edges.iter().map(|(from, to)| (from.as_str(), to.as_str())).collect();
        let folders: Vec<_> = cycles(&edges).concat().into_iter().map(str::to_owned).collect();
        if !folders.is_empty() {
            cyclic.insert(name.as_str(), folders);
        }
    }
    for (name, folders) in &cyclic {
        let stored = FOLDER_CYCLES.iter().find(|(krate, _)| krate == name).map_or(0, |(_, stored)| *stored);
        ratchet(stored, folders.len(), &format!("folders of crates/{name} that depend on each other"), folders);
    }
    let idle = FOLDER_CYCLES.iter().filter(|(name, _)| !cyclic.contains_key(name));
    none(&idle.map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>(), "no longer a cycle: take these out of FOLDER_CYCLES");
}
