//! Patterns of `case`.

use super::{Printer, expressions::Level};
use crate::ast::Pattern;

impl Printer {
    /// Returns a pattern for a position where any is allowed.
    pub(super) fn pattern(&mut self, pattern: &Pattern<'_>) -> String {
        match pattern {
            Pattern::Value(value) => self.expression(value, Level::Arithmetic),
            Pattern::Capture(name) => name.unwrap_or("_").to_owned(),
            Pattern::Star(name) => format!("*{}", name.unwrap_or("_")),
            Pattern::As(inner, name) => format!("{} as {name}", self.alternative(inner)),
            Pattern::Sequence(items) => format!("[{}]", self.patterns(items)),
            Pattern::Mapping(pairs, rest) => {
                let pair = |(key, value)| format!("{}: {}", self.expression(key, Level::Arithmetic), self.pattern(value));
                let mut parts: Vec<String> = pairs.iter().map(|(key, value)| (key, value)).map(pair).collect();
                parts.extend(rest.map(|rest| format!("**{rest}")));
                format!("{{{}}}", parts.join(", "))
            }
            Pattern::Class(class, positional, named) => {
                let class = self.expression(class, Level::Primary);
                let mut parts: Vec<String> = positional.iter().map(|pattern| self.pattern(pattern)).collect();
                parts.extend(named.iter().map(|(name, pattern)| format!("{name}={}", self.pattern(pattern))));
                format!("{class}({})", parts.join(", "))
            }
            Pattern::Or(all) => all.iter().map(|pattern| self.alternative(pattern)).collect::<Vec<_>>().join(" | "),
        }
    }

    fn patterns(&mut self, patterns: &[Pattern<'_>]) -> String {
        patterns.iter().map(|pattern| self.pattern(pattern)).collect::<Vec<_>>().join(", ")
    }

    /// Returns a pattern that is one of several, or that receives a name.
    fn alternative(&mut self, pattern: &Pattern<'_>) -> String {
        let text = self.pattern(pattern);
        if matches!(pattern, Pattern::As(..) | Pattern::Or(_)) { format!("({text})") } else { text }
    }
}
