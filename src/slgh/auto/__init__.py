"""The default method: defaults from the budget, a check of the landscape, homotopies and local searches."""
