//! Writes a plan as a transform-dialect module: text that can be read, dumped, edited and replayed.

use std::fmt::Write as _;

use super::{Plan, domain::Kernel};

const ANY: &str = "!transform.any_op";

/// The schedule for a kernel, or None where there is nothing to do.
pub(super) fn schedule(kernel: &Kernel, plan: &Plan) -> Option<String> {
    let mut writer = Writer { body: String::new(), next: 0 };
    match plan {
        Plan::Leave => return None,
        Plan::Split(tiles) => writer.split(kernel, tiles),
        Plan::Nest { blocks, rows } => {
            if let Some(tiles) = blocks {
                writer.level(kernel, "tile_using_forall", tiles);
            }
            if let Some(tiles) = rows {
                writer.level(kernel, "tile_using_for", tiles);
            }
        }
    }
    Some(format!(
        "module attributes {{transform.with_named_sequence}} {{\n  \
           transform.named_sequence @__transform_main(%kernel: {ANY} {{transform.readonly}}) {{\n{}    \
             transform.yield\n  }}\n}}\n",
        writer.body
    ))
}

struct Writer {
    body: String,
    next: usize,
}

impl Writer {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.body, "    {text}");
    }
    fn fresh(&mut self) -> String {
        self.next += 1;
        format!("%h{}", self.next)
    }

    /// Finds operations by tag; handles from before a rewrite may be stale, tags are not.
    fn find(&mut self, what: &str) -> String {
        let handle = self.fresh();
        self.line(&format!("{handle} = transform.structured.match {what} in %kernel : ({ANY}) -> {ANY}"));
        handle
    }

    /// Tiles the root and fuses everything else into the innermost of the new loops.
    fn level(&mut self, kernel: &Kernel, tiling: &str, tiles: &[i64]) {
        let root = kernel.root().number;
        let target = self.find(&format!("attributes{{dynamo.phase = {root} : i64}}"));
        let sequential = tiling == "tile_using_for";
        let loops = if sequential { tiles.iter().filter(|&&tile| tile > 0).count() } else { 1 };
        let (tiled, nest) = (self.fresh(), self.fresh());
        let sizes: Vec<_> = tiles.iter().map(ToString::to_string).collect();
        self.line(&format!(
            "{tiled}, {nest}:{loops} = transform.structured.{tiling} {target} tile_sizes [{}] : ({ANY}) -> ({})",
            sizes.join(", "),
            vec![ANY; loops + 1].join(", ")
        ));
        let mut innermost = format!("{nest}#{}", loops - 1);
        for phase in kernel.phases.iter().rev().skip(1) {
            innermost = self.fuse(&format!("attributes{{dynamo.phase = {} : i64}}", phase.number), &innermost);
        }
        for &number in &kernel.fills {
            // The root's own accumulator is what a sequential loop carries: it stays outside.
            if !(sequential && number == root) {
                let what = format!("ops{{[\"linalg.fill\"]}} attributes{{dynamo.init = {number} : i64}}");
                innermost = self.fuse(&what, &innermost);
            }
        }
        self.line(&format!("transform.apply_patterns to %kernel {{ transform.apply_patterns.canonicalization }} : {ANY}"));
    }

    /// Fuses a producer. It is tiled once per use inside the loop, so CSE must follow.
    fn fuse(&mut self, what: &str, into: &str) -> String {
        let producer = self.find(what);
        let (fused, nest) = (self.fresh(), self.fresh());
        self.line(&format!(
            "{fused}, {nest} = transform.structured.fuse_into_containing_op {producer} into {into} : ({ANY}, {ANY}) -> ({ANY}, {ANY})"
        ));
        self.line(&format!("transform.apply_cse to %kernel : {ANY}"));
        nest
    }

    /// Reduces pieces in parallel, then their results.
    fn split(&mut self, kernel: &Kernel, tiles: &[i64]) {
        let target = self.find(&format!("attributes{{dynamo.phase = {} : i64}}", kernel.root().number));
        let handles: Vec<_> = (0..4).map(|_| self.fresh()).collect();
        let sizes: Vec<_> = tiles.iter().map(ToString::to_string).collect();
        self.line(&format!(
            "{} = transform.structured.tile_reduction_using_forall {target} by tile_sizes = [{}] : ({ANY}) -> ({})",
            handles.join(", "),
            sizes.join(", "),
            [ANY; 4].join(", ")
        ));
    }
}
