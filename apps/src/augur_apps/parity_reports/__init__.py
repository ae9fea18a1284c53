"""What `parity.py` prints."""
