"""A conversation: its messages, its cache, its files, and what a person can say to it."""
