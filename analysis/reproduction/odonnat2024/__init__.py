"""Claims of Odonnat, Bouaziz and Cabannes (VC), and the experiments that test them, by
section."""
