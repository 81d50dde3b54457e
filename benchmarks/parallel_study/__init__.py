"""Problems, methods, records and page of `benchmarks/parallel.py`."""
