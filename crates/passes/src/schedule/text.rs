//! Writes a plan as a transform-dialect module: text that can be read, dumped, edited and replayed.

use std::fmt::Write as _;

use super::{
    Inner, Plan,
    domain::{Kernel, Phase},
    tiles::Tile,
};

const ANY: &str = "!transform.any_op";
const FOR: &str = "!transform.op<\"scf.for\">";

/// The schedule for a kernel, or `None` if nothing needs to be done.
pub(super) fn schedule(kernel: &Kernel, plan: &Plan) -> Option<String> {
    let mut writer = Writer { body: String::new(), next: 0 };
    match plan {
        Plan::Leave => return None,
        Plan::Split(tiles) => writer.split(kernel, "tile_sizes", tiles),
        Plan::SplitInto(counts) => writer.split(kernel, "num_threads", counts),
        Plan::Nest { blocks, rows, inner } => {
            if let Some(tiles) = blocks {
                writer.level(kernel, "tile_using_forall", tiles);
            }
            if let Some(tiles) = rows {
                writer.level(kernel, "tile_using_for", tiles);
            }
            match *inner {
                Inner::Loops => {}
                Inner::Vectors { lanes, peel } => writer.vectors(kernel, lanes, peel),
                Inner::Strips(strip) => writer.strips(kernel, strip),
                Inner::Columns => writer.columns(kernel),
            }
            if kernel.is_open() {
                writer.shrink_temporaries();
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
    fn level(&mut self, kernel: &Kernel, tiling: &str, tiles: &[Tile]) {
        let root = kernel.root().number;
        let target = self.find(&format!("attributes{{dynamo.phase = {root} : i64}}"));
        let sequential = tiling == "tile_using_for";
        let loops = if sequential { tiles.iter().filter(|tile| tile.cuts()).count() } else { 1 };
        let (tiled, nest) = (self.fresh(), self.fresh());
        let (mut sizes, mut taken) = (Vec::new(), vec![ANY]);
        for (d, tile) in tiles.iter().enumerate() {
            sizes.push(match tile {
                Tile::Whole => "0".to_owned(),
                Tile::Number(elements) => elements.to_string(),
                Tile::Computed(_) => {
                    taken.push(ANY);
                    self.find(&format!("attributes{{dynamo.tile = {d} : i64}}"))
                }
            });
        }
        self.line(&format!(
            "{tiled}, {nest}:{loops} = transform.structured.{tiling} {target} tile_sizes [{}] : ({}) -> ({})",
            sizes.join(", "),
            taken.join(", "),
            vec![ANY; loops + 1].join(", ")
        ));
        let mut innermost = format!("{nest}#{}", loops - 1);
        // Rows are copied block by block, not one by one.
        let fused = |phase: &&Phase| !(sequential && phase.stages.is_some());
        for phase in kernel.phases.iter().rev().skip(1).filter(fused) {
            innermost = self.fuse(&format!("attributes{{dynamo.phase = {} : i64}}", phase.number), &innermost);
        }
        for &number in &kernel.fills {
            // A sequential loop carries the root's own accumulator, which therefore stays outside.
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

    /// Tiles a phase into loops; returns the tiled operation and the innermost loop.
    fn loops(&mut self, number: i64, tiles: &[i64]) -> (String, String) {
        let target = self.find(&format!("attributes{{dynamo.phase = {number} : i64}}"));
        let (tiled, nest) = (self.fresh(), self.fresh());
        let loops = tiles.iter().filter(|&&tile| tile > 0).count();
        let sizes: Vec<_> = tiles.iter().map(ToString::to_string).collect();
        self.line(&format!(
            "{tiled}, {nest}:{loops} = transform.structured.tile_using_for {target} tile_sizes [{}] : ({ANY}) -> ({})",
            sizes.join(", "),
            vec![ANY; loops + 1].join(", ")
        ));
        (tiled, format!("{nest}#{}", loops - 1))
    }
    /// Marks a loop for `dynamo-prefetch`.
    fn mark(&mut self, loop_: &str) {
        self.line(&format!("transform.annotate {loop_} \"dynamo.prefetch\" : {ANY}"));
    }

    /// Cuts the root's innermost loop into vectors; the remainder stays a loop.
    fn vectors(&mut self, kernel: &Kernel, lanes: i64, peel: bool) {
        let root = kernel.root();
        let mut tiles = vec![1; root.ranges.len()];
        tiles[root.ranges.len() - 1] = lanes;
        let (mut tiled, mut main) = self.loops(root.number, &tiles);
        if peel {
            let (whole, rest) = (self.fresh(), self.fresh());
            let loop_ = self.fresh();
            self.line(&format!("{loop_} = transform.cast {main} : {ANY} to {FOR}"));
            self.line(&format!("{whole}, {rest} = transform.loop.peel {loop_} : ({FOR}) -> ({ANY}, {ANY})"));
            self.line(&format!("transform.apply_patterns to %kernel {{ transform.apply_patterns.canonicalization }} : {ANY}"));
            tiled = self.fresh();
            self.line(&format!("{tiled} = transform.structured.match ops{{[\"linalg.generic\"]}} in {whole} : ({ANY}) -> {ANY}"));
            main = whole;
        }
        self.mark(&main);
        self.line(&format!("transform.structured.vectorize {tiled} : {ANY}"));
        if tiles.len() > 1 {
            // The outer loops leave vectors of shape 1x…; these patterns remove the unit dimensions.
            let patterns = ["vector.cast_away_vector_leading_one_dim", "vector.transfer_permutation_patterns", "canonicalization"];
            let patterns = patterns.map(|name| format!("transform.apply_patterns.{name}")).join(" ");
            self.line(&format!("transform.apply_patterns to %kernel {{ {patterns} }} : {ANY}"));
        }
    }

    /// Cuts the rows of a phase into strips. The first phase over whole rows is cut only if it is the only one: it waits for memory itself,
    /// while the others have computations in the meantime.
    fn strips(&mut self, kernel: &Kernel, strip: i64) {
        let rank = kernel.phases.iter().map(|phase| phase.ranges.len()).max();
        let goes_over_rows = |phase: &&Phase| Some(phase.ranges.len()) == rank && phase.stages.is_none();
        let over_rows: Vec<_> = kernel.phases.iter().filter(goes_over_rows).collect();
        for phase in &over_rows[over_rows.len().min(2) - 1..] {
            let mut tiles = vec![0; phase.ranges.len()];
            tiles[phase.ranges.len() - 1] = strip;
            let (_, main) = self.loops(phase.number, &tiles);
            self.mark(&main);
        }
    }

    /// Creates a loop over the rows of a block of columns, in the phases that reduce.
    fn columns(&mut self, kernel: &Kernel) {
        for phase in kernel.phases.iter().filter(|phase| phase.reduced.contains(&true)) {
            let mut tiles = vec![1; phase.ranges.len()];
            tiles[phase.ranges.len() - 1] = 0;
            let (_, main) = self.loops(phase.number, &tiles);
            self.mark(&main);
        }
    }

    /// Shrinks temporaries to the part that is live at a time: whole temporaries of dynamic size would not be placed on the stack.
    fn shrink_temporaries(&mut self) {
        self.line(&format!("transform.apply_patterns to %kernel {{ transform.apply_patterns.tensor.fold_tensor_empty }} : {ANY}"));
    }

    /// Reduces pieces in parallel, then their results.
    fn split(&mut self, kernel: &Kernel, by: &str, tiles: &[i64]) {
        for phase in kernel.phases.iter().filter(|phase| phase.reduced.contains(&true)) {
            let target = self.find(&format!("attributes{{dynamo.phase = {} : i64}}", phase.number));
            let handles: Vec<_> = (0..4).map(|_| self.fresh()).collect();
            let sizes: Vec<_> = tiles.iter().map(ToString::to_string).collect();
            self.line(&format!(
                "{} = transform.structured.tile_reduction_using_forall {target} by {by} = [{}] : ({ANY}) -> ({})",
                handles.join(", "),
                sizes.join(", "),
                [ANY; 4].join(", ")
            ));
        }
    }
}
