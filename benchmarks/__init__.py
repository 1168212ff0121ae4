"""How fast this is, measured against what one would otherwise run, on the machine at hand: `python -m benchmarks`."""
