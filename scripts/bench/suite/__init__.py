"""The benchmark suite: eager, inductor and dynamlir side by side on models, kernels, products, compilations; offline.

`scripts/bench/run` is its command; `cli` lists the parts, `measure` explains how times are taken and compared.
"""
