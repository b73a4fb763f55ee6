// RUN: dynamlir-opt %s --split-input-file --verify-diagnostics

// The attributes that make a function the graph or a kernel: passes and the runtime rely on them.

// entry, kernel and the like belong to functions.
// expected-error @+1 {{'dynamo.entry' belongs to a function}}
module attributes {dynamo.entry} {
}

// -----

// expected-error @+1 {{'dynamo.entry' must be a unit attribute, got true}}
func.func private @f() attributes {dynamo.entry = true}

// -----

// outputs: only values that exist.
// expected-error @+1 {{'dynamo.outputs' must be an array of #dynamo.output, got 3}}
func.func private @f() attributes {dynamo.outputs = 3}

// -----

// expected-error @+1 {{'dynamo.outputs' must be an array of #dynamo.output, got "x"}}
func.func private @f() attributes {dynamo.outputs = ["x"]}

// -----

// expected-error @+1 {{output 0, #dynamo.output<result 1>, names nothing: there are 1}}
func.func private @f() -> tensor<4xf32> attributes {dynamo.outputs = [#dynamo.output<result 1>]}

// -----

// A result that is written into an argument is not returned to the user.
// expected-error @+1 {{output 0, #dynamo.output<result 0>, names nothing: there are 0}}
func.func private @f(tensor<4xf32>) -> (tensor<4xf32> {dynamo.mutates = 0}) attributes {dynamo.outputs = [#dynamo.output<result 0>]}

// -----

// expected-error @+1 {{output 0, #dynamo.output<arg_view 2, [1], [1], 0>, names nothing: there are 1}}
func.func private @f(tensor<4xf32>) attributes {dynamo.outputs = [#dynamo.output<arg_view 2, [1], [1], 0>]}

// -----

// expected-error @+1 {{output 0, #dynamo.output<same 0>, names nothing: there are 0}}
func.func private @f() attributes {dynamo.outputs = [#dynamo.output<same 0>]}

// -----

// expected-error @+1 {{output 1 repeats result 0: the same object is #dynamo.output<same …>}}
func.func private @f() -> tensor<4xf32> attributes {dynamo.outputs = [#dynamo.output<result 0>, #dynamo.output<result 0>]}

// -----

// versions: counts.
// expected-error @+1 {{'dynamo.versions' must be an array of i64, got [1]}}
func.func private @f() -> tensor<4xf32> attributes {dynamo.versions = [1]}

// -----

// expected-error @+1 {{'dynamo.versions' must not be negative, got array<i64: -1>}}
func.func private @f() -> tensor<4xf32> attributes {dynamo.versions = array<i64: -1>}

// -----

// expected-error @+1 {{'dynamo.versions' must be below 1048576, got array<i64: 1048576>}}
func.func private @f() -> tensor<4xf32> attributes {dynamo.versions = array<i64: 1048576>}

// -----

// One for each result that is returned to the user.
// expected-error @+1 {{'dynamo.versions' must have a number for each of the 1 results that are returned, got array<i64: 0, 0>}}
func.func private @f(tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32> {dynamo.mutates = 0}) attributes {dynamo.versions = array<i64: 0, 0>}

// -----

// random: a unit attribute.
// expected-error @+1 {{'dynamo.random' must be a unit attribute, got 1}}
func.func private @f() attributes {dynamo.random = 1}

// -----

// expected-error @+1 {{'dynamo.random' belongs to a function}}
module attributes {dynamo.random} {
}

// -----

// eager_random: an attribute of the whole program.
// expected-error @+1 {{'dynamo.eager_random' must be a unit attribute of a module, got 1}}
module attributes {dynamo.eager_random = 1} {
}

// -----

// expected-error @+1 {{'dynamo.eager_random' must be a unit attribute of a module, got unit}}
func.func private @f() attributes {dynamo.eager_random}

// -----

// memory_budget: a percentage, for the whole program.
// expected-error @+1 {{'dynamo.memory_budget' must be a percentage of a module, from 0 to 100, got 101 : i64}}
module attributes {dynamo.memory_budget = 101 : i64} {
}

// -----

// expected-error @+1 {{'dynamo.memory_budget' must be a percentage of a module, from 0 to 100, got 5.000000e-01 : f64}}
module attributes {dynamo.memory_budget = 0.5 : f64} {
}

// -----

// expected-error @+1 {{'dynamo.memory_budget' must be a percentage of a module, from 0 to 100, got 50 : i64}}
func.func private @f() attributes {dynamo.memory_budget = 50 : i64}

// -----

// bases: one for each output, or unit.
// expected-error @+1 {{'dynamo.bases' must be an array of #dynamo.base, got 3}}
func.func private @f() attributes {dynamo.bases = 3}

// -----

// expected-error @+1 {{'dynamo.bases' must be an array of #dynamo.base, got "x"}}
func.func private @f() -> tensor<4xf32> attributes {dynamo.bases = ["x"]}

// -----

// expected-error @+1 {{'dynamo.bases' must say one for each output: there are 1, it has 2}}
func.func private @f() attributes {dynamo.outputs = [#dynamo.output<none>], dynamo.bases = [unit, unit]}

// -----

// Without a list of outputs, the outputs are the results.
// expected-error @+1 {{'dynamo.bases' must say one for each output: there are 1, it has 0}}
func.func private @f() -> tensor<4xf32> attributes {dynamo.bases = []}

// -----

// expected-error @+1 {{base of output 0, #dynamo.base<arg 1>, names nothing: there are 1 arguments}}
func.func private @f(tensor<4xf32>) -> tensor<4xf32> attributes {dynamo.bases = [#dynamo.base<arg 1>]}

// -----

// expected-error @+1 {{base of output 0, #dynamo.base<output 2>, names nothing: there are 1 outputs}}
func.func private @f() -> tensor<4xf32> attributes {dynamo.bases = [#dynamo.base<output 2>]}

// -----

// expected-error @+1 {{base of output 0, #dynamo.base<output 0>, is the output itself}}
func.func private @f() -> tensor<4xf32> attributes {dynamo.bases = [#dynamo.base<output 0>]}

// -----

// A base is not a view.
// expected-error @+1 {{base of output 0, #dynamo.base<output 1>, is a view itself, of #dynamo.base<output 0>}}
func.func private @f() -> (tensor<4xf32>, tensor<4xf32>) attributes {dynamo.bases = [#dynamo.base<output 1>, #dynamo.base<output 0>]}

// -----

// A hidden tensor has the number of its first view.
// expected-error @+1 {{base of output 0, #dynamo.base<hidden 1>, has the number of an output that is not the first view of it}}
func.func private @f() -> (tensor<4xf32>, tensor<4xf32>) attributes {dynamo.bases = [#dynamo.base<hidden 1>, #dynamo.base<hidden 1>]}

// -----

// expected-error @+1 {{base of output 1, #dynamo.base<hidden 0>, has the number of an output that is not the first view of it}}
func.func private @f() -> (tensor<4xf32>, tensor<4xf32>) attributes {dynamo.bases = [#dynamo.base<none>, #dynamo.base<hidden 0>]}

// -----

// version_bumps: a count; requires_grad: a unit attribute.
// expected-error @+1 {{'dynamo.version_bumps' of argument 0 must be an i64 from 0 to below 1048576, got -1}}
func.func private @f(tensor<4xf32> {dynamo.version_bumps = -1})

// -----

// expected-error @+1 {{'dynamo.requires_grad' of argument 0 must be a unit attribute, got true}}
func.func private @f(tensor<4xf32> {dynamo.requires_grad = true})

// -----

// domain and reduced_dims: sizes, and increasing dimensions of the domain.
// expected-error @+1 {{'dynamo.domain' must not be negative, got array<i64: 4, -1>}}
func.func private @f() attributes {dynamo.kernel, dynamo.domain = array<i64: 4, -1>}

// -----

// expected-error @+1 {{'dynamo.reduced_dims' must be increasing dimensions of 'dynamo.domain', got array<i64: 1>}}
func.func private @f() attributes {dynamo.kernel, dynamo.domain = array<i64: 4>, dynamo.reduced_dims = array<i64: 1>}

// -----

// expected-error @+1 {{'dynamo.reduced_dims' must be increasing dimensions of 'dynamo.domain', got array<i64: 1, 0>}}
func.func private @f() attributes {dynamo.kernel, dynamo.domain = array<i64: 4, 4>, dynamo.reduced_dims = array<i64: 1, 0>}

// -----

// signature: the kernel's arguments, as memrefs.
// expected-error @+1 {{'dynamo.signature' must be a function type, got "f"}}
func.func private @f() attributes {dynamo.signature = "f"}

// -----

// expected-error @+1 {{'dynamo.signature' has 1 operands, the kernel 2}}
llvm.func @f(!llvm.ptr, !llvm.ptr) attributes {dynamo.signature = () -> memref<4xf32>}

// -----

// expected-error @+1 {{argument 1 is 'memref<4xf32>', in 'dynamo.signature' it is 'memref<5xf32>'}}
func.func private @f(memref<4xf32>, memref<4xf32>) attributes {dynamo.signature = (memref<4xf32>) -> memref<5xf32>}

// -----

// expected-error @+1 {{'dynamo.signature' must name memrefs, got 'tensor<4xf32>'}}
func.func private @f(tensor<4xf32>) attributes {dynamo.signature = (tensor<4xf32>) -> ()}

// -----

// strides and offset: they match the type's rank, and a memref's own layout.
// expected-error @+1 {{'dynamo.strides' of argument 0 must have a number per dimension of 'tensor<4x4xf32>', got array<i64: 1>}}
func.func private @f(tensor<4x4xf32> {dynamo.strides = array<i64: 1>})

// -----

// expected-error @+1 {{'dynamo.strides' of result 0 must not be negative, got array<i64: -1>}}
func.func private @f() -> (tensor<4xf32> {dynamo.strides = array<i64: -1>})

// -----

// expected-error @+1 {{'dynamo.strides' of argument 0 are not those of 'memref<4xf32>', got array<i64: 2>}}
func.func private @f(memref<4xf32> {dynamo.strides = array<i64: 2>})

// -----

// expected-error @+1 {{'dynamo.offset' of argument 0 must be an i64 from 0}}
func.func private @f(tensor<4xf32> {dynamo.offset = -1})

// -----

// expected-error @+1 {{'dynamo.offset' of argument 0 is not that of 'memref<4xf32, strided<[1], offset: 3>>', got 2}}
func.func private @f(memref<4xf32, strided<[1], offset: 3>> {dynamo.offset = 2})

// -----

// storage: a number; name: a string.
// expected-error @+1 {{'dynamo.storage' of argument 0 must be an i64 from 0 to below 4294967296, got 4294967296}}
func.func private @f(tensor<4xf32> {dynamo.storage = 4294967296})

// -----

// expected-error @+1 {{'dynamo.name' of argument 0 must be a string, got 1}}
func.func private @f(tensor<4xf32> {dynamo.name = 1})

// -----

// mutates: an argument of the result's type, at most once.
// expected-error @+1 {{'dynamo.mutates' of result 0 must be an i64 from 0 to below 1, got 1}}
func.func private @f(tensor<4xf32>) -> (tensor<4xf32> {dynamo.mutates = 1})

// -----

// expected-error @+1 {{'dynamo.mutates' of result 0 names an argument of another type than 'tensor<8xf32>'}}
func.func private @f(tensor<4xf32>) -> (tensor<8xf32> {dynamo.mutates = 0})

// -----

// expected-error @+1 {{'dynamo.mutates' of result 1 names the argument that result 0 is written to}}
func.func private @f(tensor<4xf32>) -> (tensor<4xf32> {dynamo.mutates = 0}, tensor<4xf32> {dynamo.mutates = 0})

// -----

// The target of a module, which passes and LLVM rely on.
// expected-error @+1 {{'dynamo.target' must be a #dynamo.target of a module, got "znver4"}}
module attributes {dynamo.target = "znver4"} {}

// -----

// expected-error @+1 {{'dynamo.target' must be a #dynamo.target of a module}}
func.func private @f() attributes {dynamo.target = #dynamo.target<"x86_64-unknown-linux-gnu", "znver4", "">}

// -----

// expected-error @+1 {{'toaster' is not a triple that LLVM knows}}
module attributes {dynamo.target = #dynamo.target<"toaster", "znver4", "">} {}

// -----

// expected-error @+1 {{expected LLVM's name of the processor}}
module attributes {dynamo.target = #dynamo.target<"x86_64-unknown-linux-gnu", "", "">} {}

// -----

// expected-error @+1 {{expected features as "+avx2,-avx512f", got 'avx2'}}
module attributes {dynamo.target = #dynamo.target<"x86_64-unknown-linux-gnu", "znver4", "+fma,avx2">} {}

// -----

// expected-error @+1 {{'vector_bits' must be 0 or a power of two from 64 to 2048, got 384}}
module attributes {dynamo.target = #dynamo.target<"x86_64-unknown-linux-gnu", "znver4", "", vector_bits = 384>} {}

// -----

// expected-error @+1 {{'library_vector_bits' must be 0 or a power of two from 64 to 2048, got -1}}
module attributes {dynamo.target = #dynamo.target<"x86_64-unknown-linux-gnu", "znver4", "", library_vector_bits = -1>} {}

// -----

// expected-error @+1 {{expected a chip as "sm_90", got 'hopper'}}
module attributes {dynamo.target = #dynamo.target<"x86_64-unknown-linux-gnu", "znver4", "", chip = "hopper">} {}

// -----

// expected-error@+1 {{'dynamo.differentiable' must be increasing positions of the 1 outputs, got array<i64: 1>}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {dynamo.entry, dynamo.differentiable = array<i64: 1>} {
  return %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{'dynamo.without_grad' must be increasing positions of the 1 outputs, got array<i64: 0, 0>}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {dynamo.entry, dynamo.without_grad = array<i64: 0, 0>} {
  return %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{'dynamo.one_of_several' must be increasing positions of the 1 outputs, got array<i64: 1>}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {dynamo.entry, dynamo.one_of_several = array<i64: 1>} {
  return %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{'dynamo.made_beside' must say for each of the 1 outputs which other one it is made beside, or -1, got array<i64: 1>}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {dynamo.entry, dynamo.made_beside = array<i64: 1>} {
  return %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{'dynamo.made_from' must say for each of the 1 outputs which other one it is made from, or -1, got array<i64: 0>}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {dynamo.entry, dynamo.made_from = array<i64: 0>} {
  return %x : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {dynamo.entry} {
  // expected-error@+1 {{'dynamo.recompute' must be an i64 from 0 to below 2147483647, got -1 : i64}}
  %0 = dynamo.exp %x {dynamo.recompute = -1} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error@+1 {{'dynamo.recompute' belongs to an operation of a function's body}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {dynamo.recompute = 0} {
  return %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{'dynamo.vjp' names @main_vjp, which is not a function beside it}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {dynamo.entry, dynamo.vjp = @main_vjp, dynamo.saved = 1} {
  return %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{'dynamo.vjp' needs 'dynamo.saved', the number of outputs that are kept for it}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {dynamo.entry, dynamo.vjp = @main_vjp} {
  return %x : tensor<4xf32>
}
func.func @main_vjp(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{'dynamo.vjp' takes 1 saved values and then tangents, but argument 0 of @main_vjp is a tangent}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {dynamo.entry, dynamo.vjp = @main_vjp, dynamo.saved = 1} {
  return %x : tensor<4xf32>
}
func.func @main_vjp(%x: tensor<4xf32> {dynamo.tangent = 0}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{'dynamo.saved' must be}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {dynamo.entry, dynamo.saved = 2} {
  return %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{'dynamo.tangent' of argument 0 must be}}
func.func @main(%x: tensor<4xf32> {dynamo.tangent = -1}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{'dynamo.gradient' of result 0 must be}}
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32> {dynamo.gradient = "x"}) {
  return %x : tensor<4xf32>
}

// -----

// The number of times that a function is differentiated.
// expected-error@+1 {{'dynamo.order' must be an i64 from 0 to below 9, got 9 : i64}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {dynamo.entry, dynamo.order = 9} {
  return %x : tensor<4xf32>
}

// -----

// The arguments that gradients depend on.
// expected-error@+1 {{'dynamo.primals' must be increasing positions of the 1 arguments, got array<i64: 1>}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {dynamo.entry, dynamo.primals = array<i64: 1>} {
  return %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{'dynamo.primal' of argument 0 must be}}
func.func @main(%x: tensor<4xf32> {dynamo.primal = "x"}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{'dynamo.recomputed' must be an i64 from 0}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {dynamo.entry, dynamo.recomputed = -1 : i64} {
  return %x : tensor<4xf32>
}

// -----

// The keys of random numbers: an operator's draw number, the source of all keys, and their position among the saved values.
// expected-error@+1 {{'dynamo.kept_keys' must be an i64 from 0 to below 1, got 1 : i64}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32>
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<arg 0>], dynamo.saved = 1 : i64, dynamo.kept_keys = 1 : i64} {
  return %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{'dynamo.given' must be increasing positions of the}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32>
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<arg 0>], dynamo.given = array<i64: 1, 0>} {
  return %x : tensor<4xf32>
}

// -----

// Nothing is saved here, neither a value nor sizes.
// expected-error@+1 {{'dynamo.kept_sizes' must be a unit attribute of a function with 'dynamo.saved', got unit}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32>
    attributes {dynamo.entry, dynamo.outputs = [#dynamo.output<arg 0>], dynamo.saved = 0 : i64, dynamo.kept_sizes} {
  return %x : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'dynamo.draw' belongs to a dynamo.aten}}
  %0 = dynamo.sin %x {dynamo.draw = 0 : i64} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'dynamo.draw' must be an i64 from 0}}
  %0 = dynamo.aten "aten.rand_like.default"(%x) args [#dynamo.operand<0>, unit, unit, unit, unit, unit] {dynamo.draw = -1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error@+1 {{'dynamo.keys' of argument 0 must be a unit attribute of a row of i64}}
func.func @main(%x: tensor<4xf32> {dynamo.keys}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{'dynamo.keys' must be a unit attribute of a dynamo.aten or of an argument, got unit}}
module attributes {dynamo.keys} {
}

// -----

// The arguments that give a result its history.
// expected-error@+1 {{'dynamo.sources' must be increasing positions of the 1 arguments, got array<i64: 0, 0>}}
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32> {dynamo.sources = array<i64: 0, 0>}) {
  return %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{'dynamo.leads_to' of argument 0 must list arguments, results and outputs as #dynamo.output, got [#dynamo.output<none>]}}
func.func @main(%x: tensor<4xf32> {dynamo.leads_to = [#dynamo.output<none>], dynamo.tangent = 0}) {
  return
}
