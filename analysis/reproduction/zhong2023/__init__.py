"""Claims of ZL: Zhong, Liu, Tegmark and Andreas, The Clock and the Pizza (arXiv
2306.17844)."""
