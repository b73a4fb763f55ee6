//! Existing objects and numbers as a capture knows them: their sources, and the guards on them.

pub(crate) mod buffers;
pub(crate) mod computed_numbers;
pub(crate) mod conversion;
pub(crate) mod guard_completeness;
pub(crate) mod is_operator;
pub(crate) mod ledger_uses;
pub(crate) mod nesting;
pub(crate) mod node_arguments;
pub(crate) mod number_sites;
pub(crate) mod numbers;
pub(crate) mod provenance;
pub(crate) mod receivers;
pub(crate) mod sizes;
pub(crate) mod torch_patches;
