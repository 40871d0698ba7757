"""Releases behind the interface of another package: scikit-learn's, so far."""

from admeasure.extras import need

need("sklearn", "learn", "An estimator of scikit-learn")
