"""Parts of `benchmarks/coco.py`: settings, peers, runs, records, statistics, tables and figures."""
