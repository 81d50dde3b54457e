"""Search spaces: named and nested parameters of mixed types, which `minimize` and `Optimizer` take instead of x0."""

from slgh.space.parameters import Array, Boolean, Categorical, Float, Integer, Ordinal, Parameter
from slgh.space.tree import Space

__all__ = ["Array", "Boolean", "Categorical", "Float", "Integer", "Ordinal", "Parameter", "Space"]
