"""Analyses of trajectories: an array function, its labelled wrapper, and a command for each."""

from analysis.command_line.interrupts import exit_on_interrupt

exit_on_interrupt()  # before anything else is imported
