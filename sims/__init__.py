"""Command lines of the simulations."""

from analysis.command_line.interrupts import exit_on_interrupt

exit_on_interrupt()  # before anything else is imported
