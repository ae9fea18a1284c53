"""The referee: ground truth, comparison and trace against transformers."""
