// Sizes that are expressions: this program does not have the callbacks that read them.
func.func private @f(tensor<?xf32, #dynamo.sizes<s0>>)
