"""A tour of the package on a bundled table: a release of UCI's Adult made with admeasure itself."""
