"""Claims of NA: Nanda, Chan, Lieberum, Smith and Steinhardt, Progress measures for
grokking (arXiv 2301.05217)."""
