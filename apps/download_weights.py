"""Fetch a checkpoint, and say what it takes. `--help` tells how."""

from augur_apps.main import start

if __name__ == "__main__":
    start("download_weights")
