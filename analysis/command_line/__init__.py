"""Common parts of the commands: parsing, errors, interrupts, shared options, selection
of runs and panels."""
