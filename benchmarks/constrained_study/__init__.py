"""Problems, methods and records of `benchmarks/constrained.py`."""
