"""Calls into the environment, put into a template wherever it could grow without end.

The sandbox lets an environment see calls, operators, filters and output. Loops, literals of lists
and dicts, slices and `~` it compiles to plain Python; here they become calls that are counted.
"""

from jinja2 import nodes
from jinja2.visitor import NodeTransformer

from augur_tok.template_budget import PIECE


def add_hooks(template: nodes.Template) -> None:
    """Puts the calls into a parsed template, in place."""
    _Hooks().visit(template)


def literal_characters(node: nodes.Node) -> int:
    """What the literal text below this node costs to write once."""
    return sum(PIECE + len(data.data) for data in node.find_all(nodes.TemplateData))


class _Hooks(NodeTransformer):
    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 (jinja's naming)
        literals = nodes.Const(literal_characters(node))
        self.generic_visit(node)
        node.iter = _call("counted", node.iter, literals)  # type: ignore[arg-type]
        return node

    def visit_List(self, node: nodes.List) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _call("weighed", node)

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _call("weighed", node)

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _call("weighed", node) if node.ctx == "load" else node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _call("copied", node) if isinstance(node.arg, nodes.Slice) else node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _call("concatenated", *node.nodes)


def _call(name: str, *arguments: nodes.Expr) -> nodes.Call:
    hook = nodes.EnvironmentAttribute(name)
    lineno = arguments[0].lineno
    return nodes.Call(hook, list(arguments), [], None, None, lineno=lineno)
