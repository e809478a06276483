"""Our own claims: how far the formulae of the papers reach, and what their open choices
change."""
