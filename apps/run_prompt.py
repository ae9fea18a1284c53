"""Answer one prompt, or a file of them. `--help` tells how."""

from augur_apps.main import start

if __name__ == "__main__":
    start("run_prompt")
