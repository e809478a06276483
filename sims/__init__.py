"""Command lines of the simulations."""
