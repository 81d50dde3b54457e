"""The loop and what surrounds it: state, step, evaluation, limits, history, checkpoints."""
