//! The dialect's documentation in answers to `textDocument/hover`.

use std::collections::HashSet;

use dynamlir_dialect::ops::DynamoOp;
use serde_json::Value;

/// The greatest number of questions that are waited for. A client that asks more gets upstream's answers.
const MOST: usize = 1000;

/// The open questions about what is under the cursor.
#[derive(Default)]
pub struct Hovers {
    /// By the text of the question's ID, which may be a number or a string.
    open: HashSet<String>,
}

impl Hovers {
    /// Notes the question, if a message to the server is one.
    pub fn ask(&mut self, message: &[u8]) {
        let Ok(message) = serde_json::from_slice::<Value>(message) else { return };
        if message["method"] == "textDocument/hover" && self.open.len() < MOST {
            self.open.insert(message["id"].to_string());
        }
    }

    /// Returns the message to send in place of a message from the server, if it answers an open question about an operation of the dialect.
    pub fn answer(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        // Most messages are not answers to hovers; parsing all of them would delay large ones.
        if self.open.is_empty() {
            return None;
        }
        let mut message: Value = serde_json::from_slice(message).ok()?;
        if message.get("method").is_some() {
            return None;
        }
        if !self.open.remove(&message.get("id")?.to_string()) {
            return None;
        }
        let contents = message.get_mut("result")?.get_mut("contents")?.get_mut("value")?;
        let extended = extended(contents.as_str()?)?;
        *contents = Value::String(extended);
        serde_json::to_vec(&message).ok()
    }
}

/// Returns a hover's Markdown with the documentation of its operation. Upstream's begins with the name in quotes, on a line with the symbol
/// that the operation defines, if it does.
fn extended(text: &str) -> Option<String> {
    let (head, rest) = text.split_once('\n').unwrap_or((text, ""));
    let (name, _) = head.strip_prefix('"')?.split_once('"')?;
    let documentation = DynamoOp::documentation(name)?;
    Some(format!("{head}\n\n{documentation}\n{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hover(id: &str) -> Vec<u8> {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"textDocument/hover","params":{{}}}}"#).into_bytes()
    }

    fn answer(id: &str, text: &str) -> Vec<u8> {
        let text = serde_json::to_string(text).expect("is text");
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"contents":{{"kind":"markdown","value":{text}}}}}}}"#).into_bytes()
    }

    #[test]
    fn operations_of_the_dialect_are_documented() {
        let mut hovers = Hovers::default();
        for id in ["7", "\"seven\""] {
            hovers.ask(&hover(id));
            let changed = hovers.answer(&answer(id, "\"dynamo.slice\"\n\nGeneric Form:")).expect("a new message");
            let changed: Value = serde_json::from_slice(&changed).expect("is JSON");
            let text = changed["result"]["contents"]["value"].as_str().expect("is text");
            assert!(text.starts_with("\"dynamo.slice\"\n\n") && text.ends_with("\n\nGeneric Form:"), "{text}");
            assert!(text.contains(dynamlir_dialect::ops::SliceOp::DOCUMENTATION));
            assert_eq!(changed["id"].to_string(), id);
        }
    }

    #[test]
    fn other_answers_stay() {
        let mut hovers = Hovers::default();
        let text = answer("1", "\"dynamo.slice\"");
        assert_eq!(hovers.answer(&text), None, "nobody asked");
        hovers.ask(&hover("1"));
        assert_eq!(hovers.answer(&answer("2", "\"dynamo.slice\"")), None, "of another question");
        assert_eq!(hovers.answer(&answer("1", "\"arith.addi\"")), None, "of another dialect");
        assert_eq!(hovers.answer(&text), None, "answered before");
        for nonsense in ["", "{", "[]", "null", "{\"id\":1}", "{\"id\":1,\"result\":null}", "{\"id\":1,\"result\":{\"contents\":3}}"] {
            hovers.ask(nonsense.as_bytes());
            hovers.ask(&hover("1"));
            assert_eq!(hovers.answer(nonsense.as_bytes()), None, "{nonsense}");
        }
    }
}
