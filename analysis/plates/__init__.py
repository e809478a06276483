"""The figures of both papers, each drawn from trajectories."""
