"""What the papers state, claim by claim, as data; and claims of our own in the same form."""
