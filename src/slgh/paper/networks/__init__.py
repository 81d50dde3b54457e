"""The two networks that the paper attacks, their training, and the images."""
