"""Walks along the boundary between the classes of a model, and their parts.

- `memory`: derivatives of the margins, remembered between iterations.
- `projection`: the nearest point at which linearized margins change their sign.
- `objective`: the margins of a model at points, and the value that orders them.
- `walk`: the walk for models that return scores, as an oracle of `minimize`.
- `label_walk`: the walk for models that return only a class.
"""
