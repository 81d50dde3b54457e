"""A fuzzing harness: random runs of slgh, checked against docs/architecture.md and an independent reference.

Run it with `python tests/fuzz --seed 0 --minutes 60 --jobs 2`. It prints the seed and a short script for each finding.
"""
