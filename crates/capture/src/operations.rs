//! The operations of Python on tracked values: calls, attributes, containers, operators.

pub(crate) mod ambient;
pub(crate) mod attributes;
pub(crate) mod autograd_functions;
pub(crate) mod c_calls;
pub(crate) mod c_code_on_tensors;
pub(crate) mod calls;
pub(crate) mod containers;
pub(crate) mod fresh_attributes;
pub(crate) mod getters;
pub(crate) mod gradients;
pub(crate) mod identity;
pub(crate) mod isinstance;
pub(crate) mod nested_containers;
pub(crate) mod operators;
pub(crate) mod pickle_protocol;
pub(crate) mod regions;
pub(crate) mod special_builtins;
pub(crate) mod special_methods;
pub(crate) mod tensors;
pub(crate) mod text_settings;
pub(crate) mod torch_switches;
pub(crate) mod unpacking;
pub(crate) mod wrappers;
