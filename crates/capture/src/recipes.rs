//! Recipes, by which an epilogue makes results, effects and the frame at a graph break again; and calls that are repeated.

pub(crate) mod outputs;
pub(crate) mod reconstruct;
pub(crate) mod repeat_nodes;
pub(crate) mod repeated_layers;
pub(crate) mod suspend;
