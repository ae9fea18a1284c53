"""Talk with a Qwen model. `--help` tells how."""

from augur_apps.main import start

if __name__ == "__main__":
    start("chat")
