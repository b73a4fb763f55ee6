//! Makes a constant of each reason in `python/dynamlir/reasons.toml`.

use std::{env, error::Error, fmt::Write as _, fs, path::Path};

const FILE: &str = "../../python/dynamlir/reasons.toml";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={FILE}");
    let text = fs::read_to_string(FILE).map_err(|error| format!("{FILE}: {error}"))?;
    let (mut constants, mut ids) = (String::new(), Vec::new());
    let mut id = None;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            if !name.chars().all(|c| c.is_ascii_lowercase() || c == '-') || ids.contains(&name) {
                return Err(format!("{FILE}: [{name}] is not the ID of a reason, or is there twice").into());
            }
            id = Some(name);
            ids.push(name);
        } else if let (Some(name), Some(explanation)) = (id, line.strip_prefix("explanation = ")) {
            let constant = name.to_uppercase().replace('-', "_");
            writeln!(constants, "/// {}\npub const {constant}: &str = \"{name}\";", explanation.trim_matches('"'))?;
            id = None;
        }
    }
    if id.is_some() || ids.is_empty() {
        return Err(format!("{FILE}: a reason without an explanation, or no reason at all").into());
    }
    writeln!(constants, "/// All of them, in the file's order.\npub const ALL: &[&str] = &{ids:?};")?;
    fs::write(Path::new(&env::var("OUT_DIR")?).join("reasons.rs"), constants)?;
    Ok(())
}
