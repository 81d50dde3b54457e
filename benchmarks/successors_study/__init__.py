"""Comparison of the paper's methods, their successors and "auto": see ../successors.py."""
