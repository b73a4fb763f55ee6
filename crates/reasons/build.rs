//! Generates a constant for each reason in `python/dynamlir/reasons.toml`, and the list of all with their kinds.

use std::{env, error::Error, fmt::Write as _, fs, path::Path};

const FILE: &str = "../../python/dynamlir/reasons.toml";

/// The names of a kind in the file and in Rust.
const KINDS: [(&str, &str); 3] = [("must-break", "MustBreak"), ("may-capture", "MayCapture"), ("refuse", "Refuse")];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={FILE}");
    let text = fs::read_to_string(FILE).map_err(|error| format!("{FILE}: {error}"))?;
    let (mut constants, mut list, mut ids) = (String::new(), String::new(), Vec::new());
    let (mut id, mut kind) = (None, None);
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            if !name.chars().all(|c| c.is_ascii_lowercase() || c == '-') || ids.contains(&name) {
                return Err(format!("{FILE}: [{name}] is not the ID of a reason, or is there twice").into());
            }
            if id.is_some() {
                break;
            }
            id = Some(name);
            ids.push(name);
        } else if let Some(name) = line.strip_prefix("kind = ") {
            kind = KINDS.iter().find(|(known, _)| *known == name.trim_matches('"')).map(|(_, variant)| *variant);
        } else if let (Some(name), Some(variant), Some(explanation)) = (id, kind, line.strip_prefix("explanation = ")) {
            let constant = name.to_uppercase().replace('-', "_");
            writeln!(list, "    ({constant}, Kind::{variant}),")?;
            writeln!(constants, "/// {}\npub const {constant}: &str = \"{name}\";", explanation.trim_matches('"'))?;
            (id, kind) = (None, None);
        }
    }
    if id.is_some() || ids.is_empty() {
        return Err(format!("{FILE}: {id:?} lacks a kind or an explanation, in this order; or there is no reason at all").into());
    }
    writeln!(constants, "/// All of them with their kinds, in the file's order.\npub const ALL: &[(&str, Kind)] = &[\n{list}];")?;
    fs::write(Path::new(&env::var("OUT_DIR")?).join("reasons.rs"), constants)?;
    Ok(())
}
