"""Every optimisation a rung: what it gains, and what it costs in exactness."""
