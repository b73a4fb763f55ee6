//! The `"python"` backend: a graph as a Python function whose callables are resolved beforehand.

use crate::{Graph, Kind};

/// Python source of `def compiled_fn(…)`, and the objects that its free names refer to.
#[derive(Clone, Debug, PartialEq)]
pub struct PythonSource<'a, O> {
    /// The text, ready for `exec`.
    pub text: String,
    /// The names to bind in the namespace: `__fn_add_0`, `__obj_0`.
    pub globals: Vec<(String, &'a O)>,
}

/// Python's keywords; torch has parameters with some of these names, such as `from`.
const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del", "elif", "else", "except",
    "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try",
    "while", "with", "yield",
];

impl<O> Graph<O> {
    /// The graph as Python source. A call whose target does not have an object is made by its qualified name.
    pub fn python_source(&self) -> PythonSource<'_, O> {
        let mut globals: Vec<(String, &O)> = Vec::new();
        let parameters: Vec<String> = self.placeholders().map(|id| self.name(id)).collect();
        let mut text = format!("def compiled_fn({}):\n", parameters.join(", "));
        for id in self.ids() {
            let node = self.node(id);
            let (callee, args) = match node.kind {
                Kind::Placeholder => continue,
                Kind::CallMethod => (String::new(), &node.args[..]),
                _ => match &node.target.object {
                    Some(object) if node.kind != Kind::Output => {
                        let key = format!("__fn_{}", self.name(id));
                        globals.push((key.clone(), object));
                        (key, &node.args[..])
                    }
                    _ => (node.target.qualified.clone(), &node.args[..]),
                },
            };
            let named = node.kwargs.iter().map(|(key, value)| match &key[..] {
                key if KEYWORDS.contains(&key) => (format!("**{{'{key}': "), "}", value),
                key => (format!("{key}="), "", value),
            });
            let mut parts: Vec<String> = Vec::new();
            for (mut part, end, argument) in args.iter().map(|argument| (String::new(), "", argument)).chain(named) {
                argument.objects(&mut |object| globals.push((format!("__obj_{}", globals.len()), object)));
                let mut places = globals[..].iter();
                let written = argument.write(&mut part, &|id| self.name(id), &mut |object, _| {
                    places.find(|(_, known)| std::ptr::eq(*known, object)).map_or_else(String::new, |(key, _)| key.clone())
                });
                debug_assert!(written.is_ok(), "writing to a string does not fail");
                parts.push(part + end);
            }
            let receiver = (node.kind == Kind::CallMethod).then(|| parts.remove(0));
            let parts = parts.join(", ");
            let name = self.name(id);
            text.push_str(&match (node.kind, receiver) {
                (Kind::Output, _) => format!("    return {parts}\n"),
                (Kind::GetAttr, _) => format!("    {name} = {callee}\n"),
                (_, Some(receiver)) => format!("    {name} = {receiver}.{}({parts})\n", node.target.qualified),
                (_, None) => format!("    {name} = {callee}({parts})\n"),
            });
        }
        PythonSource { text, globals }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Argument, Graph, Target};

    #[test]
    fn callables_and_objects_are_free_names() {
        let mut graph = Graph::default();
        let x = graph.placeholder("x", "L['x']");
        let to = graph.call_method("to", vec![Argument::Node(x), Argument::Object("f16", "torch.float16".into())], vec![], None);
        let add = graph.call_function(Target::new("add", "torch.add", "add"), vec![Argument::Node(to), Argument::Int(1)], vec![], None);
        graph.output(Argument::Tuple(vec![Argument::Node(add)]));
        let source = graph.python_source();
        assert_eq!(source.text, "def compiled_fn(x):\n    to_0 = x.to(__obj_0)\n    add_0 = __fn_add_0(to_0, 1)\n    return (add_0,)\n");
        assert_eq!(source.globals, [("__obj_0".to_owned(), &"f16"), ("__fn_add_0".to_owned(), &"add")]);
    }
}
