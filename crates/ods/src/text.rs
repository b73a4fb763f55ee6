//! Text helpers for the generated source.

/// Doc comments of a summary and a description, each line after `indent`. Code blocks of other languages are marked as text.
pub fn docs(indent: &str, summary: &str, description: &str) -> String {
    let description = unindented(description);
    let mut source = format!("{indent}/// {}\n", sentence(summary));
    if !description.is_empty() {
        source += &format!("{indent}///\n");
    }
    for line in description.lines() {
        source += format!("{indent}/// {line}").trim_end();
        source.push('\n');
    }
    source
}

/// A summary and a description as Markdown.
pub fn markdown(summary: &str, description: &str) -> String {
    format!("{}\n\n{}", sentence(summary), unindented(description)).trim_end().to_owned()
}

/// A summary as a sentence.
fn sentence(summary: &str) -> String {
    let mut letters = summary.trim().chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}.", letters.as_str())
}

/// Removes the indentation that all lines share.
fn unindented(text: &str) -> String {
    let lines: Vec<&str> = text.trim_matches('\n').lines().collect();
    let shared = lines.iter().filter(|line| !line.trim().is_empty()).map(|line| line.len() - line.trim_start().len()).min();
    let cut: Vec<&str> = lines.iter().map(|line| line.get(shared.unwrap_or(0)..).unwrap_or("").trim_end()).collect();
    cut.join("\n").trim().to_owned()
}

/// Converts `arg_reduce` to `ArgReduce`.
pub fn camel(snake: &str) -> String {
    let parts = snake.split('_').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let mut letters = part.chars();
            letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect::<String>()
        })
        .collect()
}

/// Adds a prefix to a name that is a Rust keyword.
pub fn identifier(name: &str) -> String {
    if ["type", "loop", "in", "where", "ref", "move", "match"].contains(&name) { format!("r#{name}") } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_lose_their_indentation() {
        let text = docs("    ", "the same bits", "\n    One.\n\n      %r = f %x\n");
        assert_eq!(text, "    /// The same bits.\n    ///\n    /// One.\n    ///\n    ///   %r = f %x\n");
        assert_eq!(docs("", "x", ""), "/// X.\n");
        assert_eq!(markdown("the same bits", "\n    One.\n"), "The same bits.\n\nOne.");
        assert_eq!(markdown("x", ""), "X.");
    }

    #[test]
    fn names_are_rusts() {
        assert_eq!(camel("as_strided_scatter"), "AsStridedScatter");
        assert_eq!(identifier("type"), "r#type");
        assert_eq!(identifier("kind"), "kind");
    }
}
