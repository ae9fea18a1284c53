"""Prove that augur computes what transformers does. `--help` tells how."""

from augur_apps.main import start

if __name__ == "__main__":
    start("parity")
