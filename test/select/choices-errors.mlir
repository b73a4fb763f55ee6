// RUN: dynamlir-opt %s --split-input-file --verify-diagnostics --dynamo-select

// An invalid choice ends the compilation.

// expected-error @below {{'dynamo.choices' must be a dictionary of strings, got "library"}}
module attributes {dynamo.choices = "library"} {}

// -----

// expected-error @below {{'dynamo.choices' of 'aten.mm.default': expected a string, got 1 : i64}}
module attributes {dynamo.choices = {aten.mm.default = 1 : i64}} {}

// -----

// expected-error @below {{'dynamo.choices' of 'aten.mm.default': 'panels-both-1' is not a strategy for a product}}
module attributes {dynamo.choices = {aten.mm.default = "panels-both-1"}} {}
