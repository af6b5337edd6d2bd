"""What runs a graph: the NumPy reference, which is the oracle, and the Burn runtime."""
