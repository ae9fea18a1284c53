"""The sandboxed Jinja environment in which chat templates run: transformers' settings."""

import json
from typing import Any, NoReturn

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment


class GenerationTag(Extension):
    """`{% generation %}...{% endgeneration %}`, by which training code finds the model's own words.

    Its body is rendered as it stands, with a scope of its own.
    """

    tags = {"generation"}  # noqa: RUF012 (jinja's own declaration)

    def parse(self, parser: Parser) -> nodes.Node:
        """Jinja's hook: the statement that stands for the tag."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        call = self.call_method("_rendered_body")
        return nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _rendered_body(self, caller: Any) -> Any:
        return caller()


def chat_environment() -> ImmutableSandboxedEnvironment:
    """A new environment; the settings decide where a template's own line ends and spaces go.

    A template comes with the weights, from anyone: the sandbox lets it read what it is given and
    nothing else. `strftime_now`, which reads the clock, is not here: the caller hands it in.
    """
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    return environment


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # Jinja's own filter writes for HTML (it escapes <, > and &), which is not what models saw.
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)
