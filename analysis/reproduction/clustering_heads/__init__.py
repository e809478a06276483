"""Claims of the later version of Odonnat, Bouaziz and Cabannes (CH), known by its summary."""
