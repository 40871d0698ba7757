"""Generator networks: a multilayer perceptron from Gaussian noise to product distributions.

Liu, Vietri and Wu (2021), section 4 and appendix B. A batch of B noise vectors gives B product
rows, the array `P` of `admeasure.families.products`: answers, scores, samples and losses are those
of that package, and nothing of them is written here again.

    generator   the network: its weights, its noise, the rows that it makes, its file
    measured    what was measured, as arrays of padded shapes, and the losses
    training    gradient steps: stopping rules, what is kept when numbers stop being finite
    arbitrary   a user's predicates, by the score-function estimator
    family      the model and its update

JAX is imported where something is learned and nowhere else.
"""
