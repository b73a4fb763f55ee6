//! Two printers: torch-level lines (`Display`) and the table of opcode, name, target, args and kwargs.

use std::fmt;

use crate::{Argument, Graph, Kind, NodeId, argument::write_items};

impl<O> Graph<O> {
    /// The name of a node in the printed graph: `x`, `add_0`.
    pub fn name(&self, id: NodeId) -> String {
        let node = self.node(id);
        match node.kind {
            Kind::Placeholder | Kind::Output => node.target.base.clone(),
            _ => format!("{}_{}", node.target.base, node.ordinal),
        }
    }

    fn text(&self, argument: &Argument<O>) -> String {
        let mut out = String::new();
        let written = argument.write(&mut out, &|id| self.name(id), &mut |_, text| text.to_owned());
        debug_assert!(written.is_ok(), "writing to a string does not fail");
        out
    }

    /// `a, b, key=c` of a call.
    fn arguments(&self, args: &[Argument<O>], kwargs: &[(String, Argument<O>)]) -> String {
        let mut out = String::new();
        let written = write_items(args, &mut out, &|id| self.name(id), &mut |_, text| text.to_owned());
        debug_assert!(written.is_ok(), "writing to a string does not fail");
        for (key, value) in kwargs {
            if !out.is_empty() {
                out.push_str(", ");
            }
            out.push_str(&format!("{key}={}", self.text(value)));
        }
        out
    }

    /// The table: one row per node, columns opcode, name, target, args, kwargs.
    pub fn table(&self) -> String {
        let mut rows = vec![["opcode", "name", "target", "args", "kwargs"].map(str::to_owned)];
        rows.push([const { "" }; 5].map(str::to_owned));
        for id in self.ids() {
            let node = self.node(id);
            let kwargs: Vec<String> = node.kwargs.iter().map(|(key, value)| format!("'{key}': {}", self.text(value))).collect();
            let mut args = String::new();
            let written = write_items(&node.args, &mut args, &|id| self.name(id), &mut |_, text| text.to_owned());
            debug_assert!(written.is_ok(), "writing to a string does not fail");
            let comma = if node.args.len() == 1 { "," } else { "" };
            rows.push([
                node.kind.name().to_owned(),
                self.name(id),
                node.target.qualified.clone(),
                format!("({args}{comma})"),
                format!("{{{}}}", kwargs.join(", ")),
            ]);
        }
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: [usize; 5] = std::array::from_fn(width);
        for (cell, width) in rows[1].iter_mut().zip(widths) {
            *cell = "-".repeat(width);
        }
        let mut out = String::new();
        for row in &rows {
            let line: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
            out.push_str(line.join("  ").trim_end());
            out.push('\n');
        }
        out
    }

    /// One node as a line of the torch-level graph: `add_0 = torch.add(x, y)`.
    pub fn line(&self, id: NodeId) -> String {
        let node = self.node(id);
        let name = self.name(id);
        match node.kind {
            Kind::Placeholder => format!("{name} = placeholder"),
            Kind::CallFunction | Kind::CallModule => {
                format!("{name} = {}({})", node.target.qualified, self.arguments(&node.args, &node.kwargs))
            }
            Kind::CallMethod => {
                let (object, rest) = node.args.split_first().map_or((String::new(), &[][..]), |(first, rest)| (self.text(first), rest));
                format!("{name} = {object}.{}({})", node.target.qualified, self.arguments(rest, &node.kwargs))
            }
            Kind::GetAttr => format!("{name} = {}", node.target.qualified),
            // Backends always get a tuple; the printed text shows what the function returns.
            Kind::Output => match &node.args[..] {
                [Argument::Tuple(items)] if items.len() == 1 => format!("return {}", self.text(&items[0])),
                args => format!("return {}", self.arguments(args, &[])),
            },
        }
    }
}

/// The torch-level graph, one line per node.
impl<O> fmt::Display for Graph<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Graph:")?;
        self.ids().try_for_each(|id| writeln!(f, "    {}", self.line(id)))
    }
}

#[cfg(test)]
mod tests {
    use crate::Target;

    use super::*;

    fn reference() -> Graph<&'static str> {
        let mut graph = Graph::default();
        let x = graph.placeholder("x", "L['x']");
        let y = graph.placeholder("y", "L['y']");
        let add = graph.call_function(Target::new("add", "torch.add", "add"), vec![Argument::Node(x), Argument::Node(y)], vec![], None);
        let mul = graph.call_function(Target::new("mul", "torch.mul", "mul"), vec![Argument::Node(add), Argument::Int(2)], vec![], None);
        let sum = graph.call_method("sum", vec![Argument::Node(mul)], vec![("dim".into(), Argument::Int(0))], None);
        graph.output(Argument::Node(sum));
        graph
    }

    #[test]
    fn the_torch_level_graph_reads_like_python() {
        assert_eq!(
            reference().to_string(),
            "Graph:\n    x = placeholder\n    y = placeholder\n    add_0 = torch.add(x, y)\n    mul_0 = torch.mul(add_0, 2)\n    \
             sum_0 = mul_0.sum(dim=0)\n    return sum_0\n"
        );
    }

    #[test]
    fn the_table_has_a_row_for_each_node() {
        assert_eq!(
            reference().table(),
            "opcode         name    target     args        kwargs\n\
             -------------  ------  ---------  ----------  ----------\n\
             placeholder    x       L['x']     ()          {}\n\
             placeholder    y       L['y']     ()          {}\n\
             call_function  add_0   torch.add  (x, y)      {}\n\
             call_function  mul_0   torch.mul  (add_0, 2)  {}\n\
             call_method    sum_0   sum        (mul_0,)    {'dim': 0}\n\
             output         output  output     (sum_0,)    {}\n"
        );
    }
}
