"""Recording of torch models that are trained by loops of their own."""
