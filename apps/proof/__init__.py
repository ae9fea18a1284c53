"""What `parity.py` is made of: ground truth, the referee, comparison and trace."""
