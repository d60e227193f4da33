"""Benchmarks: `uv run python -m onelaunch.bench [speed] [slider] [fidelity] [import]`, one table of ratios."""
