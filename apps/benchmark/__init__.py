"""What `bench.py` is made of: rungs, worker processes, limits, exactness, tables and figures."""
