"""Mixtures of products: rows that are each a product distribution over the columns' levels.

The centre is one array `P` of shape (width, rows), single precision: line `layout.starts[c] + v` is
level v of column c (columns in alphabetical order), and in every row the lines of a column sum to
1. Whatever makes such rows (sparsemax points, softmax logits, a generator network) answers and
learns through the same code: `tensor` answers, `loss` and `optimise` fit in JAX, with padded shapes
so that few compilations serve a whole run, and `pairs` fits whole pairs without it.

`family.ProductModel` holds such rows as a model: answers, samples (randomised rounding), stores.
JAX is imported where something is learned but by `pairs`, and nowhere else.
"""
