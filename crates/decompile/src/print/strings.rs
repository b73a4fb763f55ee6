//! f-strings and template strings: they need quotes that nothing inside uses, and before 3.12 no backslashes inside.

use dynamlir_bytecode::{
    Const,
    repr::{escape, quoted},
};

use super::{Printer, expressions::Level};
use crate::ast::Piece;

/// Returns an f-string, or, if it cannot be written, `'…' % (…)`, which compiles to the same code.
pub(super) fn format(printer: &mut Printer, pieces: &[Piece<'_>]) -> String {
    for (delimiter, quote) in [("'", '\''), ("\"", '"'), ("'''", '\''), ("\"\"\"", '"')] {
        let mut text = String::new();
        if parts(printer, pieces, delimiter, quote, false, &mut text) {
            return format!("f{delimiter}{text}{delimiter}");
        }
    }
    if let Some(text) = percent(printer, pieces) {
        return text;
    }
    printer.problem = Some("an f-string that this version's grammar cannot write".to_owned());
    String::new()
}

/// Returns a template string.
pub(super) fn template(printer: &mut Printer, pieces: &[Piece<'_>]) -> String {
    let mut text = String::new();
    if !parts(printer, pieces, "'", '\'', false, &mut text) {
        printer.problem = Some("a template string that no source has".to_owned());
    }
    format!("t'{text}'")
}

/// Returns a constant as an f-string without values.
pub(super) fn constant(printer: &mut Printer, text: &Const) -> String {
    let mut out = String::new();
    parts(printer, &[Piece::Text(text)], "'", '\'', false, &mut out);
    format!("f'{out}'")
}

fn points(text: &Const) -> Vec<u32> {
    match text {
        Const::Str(text) => text.chars().map(u32::from).collect(),
        Const::WideStr(points) => points.clone(),
        _ => Vec::new(),
    }
}

/// Writes the inside of an f-string; returns false if the delimiter is unsuitable.
fn parts(printer: &mut Printer, pieces: &[Piece<'_>], delimiter: &str, quote: char, in_format: bool, out: &mut String) -> bool {
    for piece in pieces {
        match piece {
            Piece::Text(text) => {
                for point in points(text) {
                    match char::from_u32(point) {
                        // A format cannot contain literal braces, nor escapes in some versions.
                        Some('{' | '}' | '\\') if in_format => return false,
                        Some(brace @ ('{' | '}')) => {
                            out.push(brace);
                            out.push(brace);
                        }
                        _ => escape(out, point, quote, false),
                    }
                }
            }
            Piece::Value(value, conversion, format) => {
                let text = printer.expression(value, Level::Or);
                // Old parsers allow neither backslashes nor the string's own quotes inside.
                let nested = text.contains('\\') || text.contains(delimiter) || (delimiter.len() == 3 && text.ends_with(quote));
                if nested && (!printer.version.facts().nests_quotes || text.contains(delimiter)) || text.contains('\n') {
                    return false;
                }
                let before = if text.starts_with('{') { " " } else { "" };
                let behind = if text.ends_with('}') { " " } else { "" };
                let text = format!("{before}{text}{behind}");
                if !replaced(printer, &text, *conversion, format.as_deref(), (delimiter, quote), out) {
                    return false;
                }
            }
            // The template keeps this text.
            Piece::Source(_, text, conversion, format) => {
                if !replaced(printer, text, *conversion, format.as_deref(), (delimiter, quote), out) {
                    return false;
                }
            }
        }
    }
    true
}

/// Writes the part in braces; returns false if the delimiter is unsuitable.
fn replaced(
    printer: &mut Printer,
    text: &str,
    conversion: Option<char>,
    format: Option<&[Piece<'_>]>,
    (delimiter, quote): (&str, char),
    out: &mut String,
) -> bool {
    out.push('{');
    out.push_str(text);
    if let Some(conversion) = conversion {
        out.push('!');
        out.push(conversion);
    }
    if let Some(format) = format {
        out.push(':');
        if !parts(printer, format, delimiter, quote, true, out) {
            return false;
        }
    }
    out.push('}');
    true
}

/// `'%s' % (value,)`
fn percent(printer: &mut Printer, pieces: &[Piece<'_>]) -> Option<String> {
    let mut text = Vec::new();
    let mut values = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Text(part) => {
                for point in points(part) {
                    text.push(point);
                    if point == u32::from('%') {
                        text.push(point);
                    }
                }
            }
            Piece::Value(value, Some(conversion), None) => {
                text.extend([u32::from('%'), u32::from(*conversion)]);
                values.push(printer.expression(value, Level::Test));
            }
            Piece::Value(..) | Piece::Source(..) => return None,
        }
    }
    Some(format!("({} % ({},))", quoted(text.iter().copied()), values.join(", ")))
}
