"""Do on a GPU what cannot be tried without one. `--help` tells how."""

from augur_apps.main import start

if __name__ == "__main__":
    start("gpu_check")
