"""Analyses of trajectories: an array function, its labelled wrapper, and a command for each."""
