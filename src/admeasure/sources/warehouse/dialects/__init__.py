"""SQL of the warehouses, one file each: see `admeasure.sources.dialect`."""
