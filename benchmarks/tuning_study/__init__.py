"""Problems, methods, records and page of `benchmarks/tuning.py`."""
