"""Search spaces of named and nested parameters. `minimize` and `Optimizer` take a search space instead of x0."""

from slgh.space.parameters import Array, Boolean, Categorical, Float, Integer, Ordinal, Parameter
from slgh.space.tree import Space

__all__ = ["Array", "Boolean", "Categorical", "Float", "Integer", "Ordinal", "Parameter", "Space"]
