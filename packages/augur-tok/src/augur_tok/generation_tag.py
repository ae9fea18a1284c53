"""A statement that training code has added to Jinja's language."""

from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser


class GenerationTag(Extension):
    """`{% generation %}...{% endgeneration %}`, by which training code finds the model's own words.

    Its body is rendered as it stands, with a scope of its own.
    """

    tags = {"generation"}  # noqa: RUF012 (jinja's own declaration)

    def parse(self, parser: Parser) -> nodes.Node:
        """Jinja's hook: the statement that stands for the tag."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)
