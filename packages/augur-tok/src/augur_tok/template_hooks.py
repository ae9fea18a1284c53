"""The parts of Jinja's language that a template may use, and calls that count what they take.

The sandbox lets an environment see calls, arithmetic, filters and output. Loops, comparisons,
literals, slices and `~` it compiles to plain Python; here they become calls of the environment.
"""

from jinja2 import nodes
from jinja2.exceptions import TemplateAssertionError
from jinja2.visitor import NodeTransformer

from augur_tok.template_budget import MACRO, NODES_OF_A_STEP
from augur_tok.template_values import check_number

STATEMENTS = (
    nodes.Template, nodes.Output, nodes.TemplateData, nodes.For, nodes.If, nodes.Macro,
    nodes.Assign, nodes.AssignBlock, nodes.NSRef, nodes.With, nodes.Scope, nodes.Break,
    nodes.Continue,
)  # fmt: skip
EXPRESSIONS = (
    nodes.Name, nodes.Const, nodes.Tuple, nodes.List, nodes.Dict, nodes.Pair, nodes.Keyword,
    nodes.CondExpr, nodes.Filter, nodes.Test, nodes.Call, nodes.Getitem, nodes.Getattr,
    nodes.Slice, nodes.Concat, nodes.Compare, nodes.Operand,
)  # fmt: skip
OPERATORS = (
    nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Pow, nodes.And,
    nodes.Or, nodes.Not, nodes.Neg, nodes.Pos,
)  # fmt: skip
ALLOWED = frozenset((*STATEMENTS, *EXPRESSIONS, *OPERATORS))

# Jinja's own objects, by which a template would reach its blocks.
FORBIDDEN_NAMES = frozenset({"self", "super", "caller"})


# Qwen's longest has about 2,000 nodes, 20 deep. The compiler goes through the inside of a scope
# once more for each scope around it.
MAX_NODES = 20_000
MAX_DEPTH = 100
SCOPES = (nodes.For, nodes.Macro, nodes.With, nodes.Scope, nodes.AssignBlock)
MAX_SCOPES = 10


def add_hooks(template: nodes.Template) -> None:
    """Checks a parsed template and puts the calls into it, in place.

    Raises:
        TemplateAssertionError: it uses a part of the language that is not listed here, or too much
            of it.
        ChatTemplateError: it holds a number that is too large.
    """
    found = 0
    waiting: list[tuple[nodes.Node, int, int]] = [(template, 0, 0)]
    while waiting:
        node, depth, scopes = waiting.pop()
        _check(node)
        found, scopes = found + 1, scopes + isinstance(node, SCOPES)
        if found > MAX_NODES or depth > MAX_DEPTH or scopes > MAX_SCOPES:
            raise TemplateAssertionError(
                f"it has more than {MAX_NODES:,} parts, or nests them more than {MAX_DEPTH} deep, "
                f"or loops and macros more than {MAX_SCOPES} deep",
                node.lineno,
            )
        waiting += [(child, depth + 1, scopes) for child in node.iter_child_nodes()]
    _Hooks().visit(template)


def _check(node: nodes.Node) -> None:
    name = type(node).__name__
    if type(node) not in ALLOWED:
        raise TemplateAssertionError(f"{name} is not supported", node.lineno)
    if isinstance(node, nodes.For) and node.recursive:
        raise TemplateAssertionError("recursive loops are not supported", node.lineno)
    if isinstance(node, nodes.Name) and node.name in FORBIDDEN_NAMES:
        raise TemplateAssertionError(f"{node.name} is not supported", node.lineno)
    if isinstance(node, nodes.Const):
        check_number(node.value)
    if isinstance(node, nodes.Call | nodes.Filter | nodes.Test) and (
        node.dyn_args is not None or node.dyn_kwargs is not None
    ):
        raise TemplateAssertionError("arguments by * and ** are not supported", node.lineno)


class _Hooks(NodeTransformer):
    def visit_TemplateData(self, node: nodes.TemplateData) -> nodes.Node:  # noqa: N802 (jinja's)
        # Literal text is then written like any other, through the environment's `finalize`.
        return nodes.Const(node.data, lineno=node.lineno)

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802
        steps = _steps(node)
        self.generic_visit(node)
        node.iter = _call("counted", node.iter, nodes.Const(steps))
        return node

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:  # noqa: N802
        steps = _steps(node)
        self.generic_visit(node)
        entered = _call("entered", nodes.Const(steps, lineno=node.lineno))
        node.body.insert(0, nodes.ExprStmt(entered, lineno=node.lineno))
        return node

    def visit_List(self, node: nodes.List) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _call("new", node)

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _call("new", node) if node.ctx == "load" else node

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        keys = nodes.Tuple([pair.key for pair in node.items], "load", lineno=node.lineno)
        values = nodes.Tuple([pair.value for pair in node.items], "load", lineno=node.lineno)
        return _call("new_dict", keys, values)

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        if not isinstance(node.arg, nodes.Slice):
            return node
        ends = (node.arg.start, node.arg.stop, node.arg.step)
        return _call("sliced", node.node, *(end or nodes.Const(None) for end in ends))

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _call("concatenated", *node.nodes)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        operands = [(nodes.Const(operand.op), operand.expr) for operand in node.ops]
        return _call("compared", node.expr, *(part for pair in operands for part in pair))


def _steps(node: nodes.Node) -> int:
    """What one turn of a loop or one run of a macro's body takes."""
    inside = (MACRO if type(part) is nodes.Macro else 1 for part in node.find_all(nodes.Node))
    return 1 + sum(inside) // NODES_OF_A_STEP


def _call(name: str, *arguments: nodes.Node) -> nodes.Call:
    hook = nodes.EnvironmentAttribute(name)
    lineno = arguments[0].lineno
    return nodes.Call(hook, [*arguments], [], None, None, lineno=lineno)
