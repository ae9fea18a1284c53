"""The options' help speaks of what the program has."""

import importlib
import re

import pytest
import typer


@pytest.mark.parametrize("program", ["chat", "run_prompt"])
def test_help_names_no_option_that_the_program_lacks(program: str):
    app = importlib.import_module(f"augur_apps.{program}").app
    options = typer.main.get_command(app).params
    names = {name for option in options for name in (*option.opts, *option.secondary_opts)}
    for option in options:
        told = f"{option.help} {option.show_default}"
        assert set(re.findall(r"--[a-z][a-z-]*", told)) <= names, option.name
