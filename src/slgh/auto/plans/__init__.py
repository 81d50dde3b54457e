"""Plans of "auto": which phase comes next, and how much of the budget it gets."""
