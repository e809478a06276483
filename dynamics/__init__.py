"""Training dynamics: the systems, the loop that advances them and the trajectory that records them."""
