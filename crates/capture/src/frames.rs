//! Frames: instructions, the points where a frame is left, and the attempts at capturing one.

pub(crate) mod attempt_options;
pub(crate) mod attempts;
pub(crate) mod audit;
pub(crate) mod break_point;
pub(crate) mod compile_queries;
pub(crate) mod exceptions;
pub(crate) mod frame_entry;
pub(crate) mod names;
pub(crate) mod policy;
pub(crate) mod run;
pub(crate) mod specialize;
pub(crate) mod variable_names;
