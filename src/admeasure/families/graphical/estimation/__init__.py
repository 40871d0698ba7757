"""From noisy marginals to potentials: the dual, its slack and curvature, steps to its minimum."""
