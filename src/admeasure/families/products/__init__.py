"""Mixtures of products: rows that are each a product distribution over the columns' levels.

The centre is one array `P` of shape (width, rows), single precision: line `layout.starts[c] + v` is
level v of column c (columns in alphabetical order), and in every row the lines of a column sum to
1. Whatever makes such rows (sparsemax points, softmax logits, a generator network) answers and
learns through the same code:

    layout = tensor.Layout.of(domain)
    tensor.marginals(P, layout, [("age", "sex"), …])    shares, numpy; a group of columns at a time
    tensor.ProductAnswers(P, layout).blocks(query)      shares of a marginal or threshold, in blocks
    selectors.top.CellErrors(model, excluded)           a score for the curator's top_k, streamed
    selectors.top.MarginalErrors(model, penalty)        the same for whole marginals

and in JAX, with padded shapes, so that few compilations serve a whole run:

    data = loss.cells(log, layout, total)               single counts and thresholds
    data = loss.tables(log, layout, total)              whole marginals
    value = loss.cell_loss(P, data)                     Σ (q(P) - a)², differentiable in P
    value = loss.table_loss(P, data)                    the same over all cells of the marginals
    optimise.minimise(P, layout, log, total, how)       P, fitted by Adam

and without JAX, to whole pairs alone:

    model = pairs.handed_over(start, log)               product rows begun from another model's

The scores take any model with `blocks(query)` and `placed`, such as
`ProductModel`; the losses take any array of this shape, so a network's output serves as well.

`family.ProductModel` holds such rows as a model: answers, samples (randomised rounding), stores.
JAX is imported where something is learned but by `pairs`, and nowhere else.
"""
