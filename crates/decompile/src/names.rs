//! Validity of names.

/// Words that cannot be names.
const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del", "elif", "else", "except",
    "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try",
    "while", "with", "yield",
];

/// Returns true if Python's grammar accepts the text as a name.
pub(crate) fn is_identifier(text: &str) -> bool {
    let mut characters = text.chars();
    let first = characters.next().is_some_and(|first| first.is_alphabetic() || first == '_');
    first && characters.all(|character| character.is_alphanumeric() || character == '_') && !KEYWORDS.contains(&text)
}
