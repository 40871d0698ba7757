"""The graphical-model engine: plans array operations for a junction tree and runs them.

Works on attributes 0 … d - 1 with `levels[a]` values each; a clique is a sorted tuple of
attributes, and its table has its axes in that order. Nothing here reads private data or draws
noise: the input is what was measured, the only randomness is the generator given to `sample`.

    tree = JunctionTree.build(levels, cliques)            # .cells, .megabytes, .nodes
    tree.sizes_with(candidates, limit_cells)      # upper bounds on tree.extended(c).cells
    tree = tree.extended(clique)

    fit = estimate(levels, [Observation(clique, values, sigma), ...],
                   zeros=[Zeros(clique, mask), ...],   # True: impossible
                   tree=tree, start=previous_model, accuracy=IN_LOOP)   # or FINAL
    model = fit.model                             # fit.iterations

    model.marginals([(0, 2), (1, 3, 4)])          # expected counts, summing to model.total
    model.sample(rows, rng)                       # (rows, d) codes
    MarkovRandomField.from_arrays(model.arrays())    # plain arrays, no pickle
"""
