//! Reads and writes of existing objects: the frame's writes are noted, and every read sees them.

pub(crate) mod attribute_writes;
pub(crate) mod c_special_methods;
pub(crate) mod callbacks;
pub(crate) mod classes;
pub(crate) mod container_writes;
pub(crate) mod context_variables;
pub(crate) mod describe_effects;
pub(crate) mod dict_views;
pub(crate) mod finalizers;
pub(crate) mod iterators;
pub(crate) mod lookups;
pub(crate) mod name_writes;
pub(crate) mod read_by_c;
pub(crate) mod snapshots;
pub(crate) mod subclassed;
pub(crate) mod tensor_keys;
pub(crate) mod tensor_writes;
pub(crate) mod weak_references;
