"""Parts of `benchmarks/ablation.py`: the axes, building and tuning, the two fields, scores, page and picture."""
