"""What the commands have in common: parsing, errors, interrupts, options, choice of runs and panels."""
