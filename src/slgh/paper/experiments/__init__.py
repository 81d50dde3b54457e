"""One file per experiment of the paper."""
