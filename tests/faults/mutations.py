"""Which small changes a source can be given: Cosmic Ray's operators, and calls that are left out.

    mutations(path, text)      every change of one file, with the place it is made at
    drawn(found, seed)         all of them in an order that the seed decides, one for each place
    mutated(text, mutation)    the file with one change

A place stays in its position of the order when lines above it move: the order is a hash of the
file, the text of the line and the change, not of the line's number.

Left out is what no test can notice by the design of the house: annotations (they are never
evaluated), `if TYPE_CHECKING`, asserts (they never fail in a right program), lines of the log, the
sizes of constants (a bound that is one higher is a bound), and the types of `cast`. Of operators
only the nearest replacement is made: everybody notices a power in place of a sum.

One rule: nothing here runs a test.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Example, Operator
from cosmic_ray.operators.provider import OperatorProvider
from parso import parse

from tests.faults.mutation import Mutation, rank

_NEAR_BINARY: Final = (
    "Add_Sub", "Sub_Add", "Mul_FloorDiv", "FloorDiv_Mul", "Div_Mul", "Mod_FloorDiv",
    "BitOr_BitAnd", "BitAnd_BitOr", "BitXor_BitOr", "LShift_RShift", "RShift_LShift",
)  # fmt: skip
_NEAR_COMPARISONS: Final = (
    "Eq_NotEq", "Eq_LtE", "Eq_GtE", "NotEq_Eq", "NotEq_Lt", "NotEq_Gt", "Lt_LtE", "LtE_Lt",
    "Gt_GtE", "GtE_Gt", "Is_IsNot", "IsNot_Is",
)  # fmt: skip
_OTHERS: Final = (
    "ReplaceUnaryOperator_Delete_Not", "ReplaceUnaryOperator_Delete_USub", "AddNot",
    "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr", "ReplaceOrWithAnd",
    "ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ExceptionReplacer", "NumberReplacer",
    "ZeroIterationForLoop",
)  # fmt: skip
_LOGGERS: Final = ("log.", "logger.", "_log.")


class OmitStatement(Operator):
    """Leaves out a call with an unused result, `x += y`, or `del`: these are easily forgotten."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        if node.type == "simple_stmt" and _is_omissible(node.children[0]):
            yield node.children[0].start_pos, node.children[0].end_pos

    def mutate(self, node: Any, index: int) -> Any:
        first = node.children[0]
        node.children[0] = parse(first.get_first_leaf().prefix + "pass")
        return node

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return (Example("free(x)\n", "pass\n"),)


def _is_omissible(node: Any) -> bool:
    """True for `a.b(c)`, `await a.b(c)`, `a += b` and `del a[b]`."""
    if node.type == "del_stmt":
        return True
    if node.type == "expr_stmt":
        return bool(node.children[1].type == "operator" and node.children[1].value != "=") or (
            node.children[1].type == "augassign"
        )
    if node.type != "atom_expr":
        return False
    last = node.children[-1]
    code = node.get_code(include_prefix=False)
    return last.type == "trailer" and last.children[0].value == "(" and _is_no_log(code)


def _is_no_log(code: str) -> bool:
    return not code.startswith((*_LOGGERS, "super().__init__"))


@cache
def operators() -> dict[str, Operator]:
    """Return every operator that is used, by its name."""
    provider = OperatorProvider()
    names = [
        *(f"ReplaceBinaryOperator_{each}" for each in _NEAR_BINARY),
        *(f"ReplaceComparisonOperator_{each}" for each in _NEAR_COMPARISONS),
        *_OTHERS,
    ]
    return {name: provider[name]() for name in names} | {"OmitStatement": OmitStatement()}


def mutations(path: str, text: str) -> list[Mutation]:
    """Return every change that a test could notice, in the order of the file."""
    counts = dict.fromkeys(operators(), -1)
    out_of_sight = _out_of_sight(text)
    found = []
    for node in ast_nodes(get_ast(text)):
        for name, operator in operators().items():
            for variant, (start, _) in enumerate(operator.mutation_positions(node)):
                counts[name] += 1
                if not any(first <= start < last for first, last, what in out_of_sight
                           if what in (None, name)):  # fmt: skip
                    found.append(Mutation(path, *start, name, variant, counts[name]))
    return sorted(found)


def mutated(text: str, mutation: Mutation) -> str | None:
    """Return the file with the change; None if that is no program, or the same one."""
    changed = mutate_code(text, operators()[mutation.operator], mutation.occurrence)
    if changed is None:
        return None
    try:
        if ast.dump(ast.parse(changed)) == ast.dump(ast.parse(text)):
            return None
    except SyntaxError:
        return None
    return str(changed)


def drawn(found: Iterable[Mutation], texts: dict[str, str], seed: int) -> list[Mutation]:
    """Return one change for each place, in an order that looks random and is the seed's."""
    lines = {path: text.splitlines() for path, text in texts.items()}
    ranked: dict[tuple[str, int, int], tuple[str, Mutation]] = {}
    for each in found:
        hashed = rank(each, lines[each.path], seed)
        place = each.path, each.line, each.column
        ranked[place] = min(ranked.get(place, (hashed, each)), (hashed, each))
    # A place with many changes would come earlier by the least of their ranks.
    order = {
        place: hashlib.sha256(f"{hashed} {seed}".encode()).hexdigest()
        for place, (hashed, _) in ranked.items()
    }
    return [ranked[place][1] for place in sorted(ranked, key=order.__getitem__)]


_Range = tuple[tuple[int, int], tuple[int, int], str | None]


def _out_of_sight(text: str) -> list[_Range]:
    """Return from where to where no change is noticed, and for which operator (None: for all)."""
    tree = ast.parse(text)
    found: list[_Range] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) or (
            isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        ):
            found.append(_range(node))
        elif isinstance(node, ast.AnnAssign | ast.arg) and node.annotation is not None:
            found.append(_range(node.annotation))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            found.append(_range(node.returns))
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name == "cast":
                found.append(_range(node.args[0]))
            elif not _is_no_log(f"{name}("):
                found.append(_range(node))
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            first, last, _ = _range(node)
            found.append((first, last, "NumberReplacer"))
            if isinstance(node, ast.Assign):  # the name of a type
                found.append((first, last, "ReplaceBinaryOperator_BitOr_BitAnd"))
    return found


def _range(node: ast.expr | ast.stmt) -> _Range:
    # The columns of `ast` count bytes: the same wherever source is ASCII before the place.
    assert node.end_lineno is not None and node.end_col_offset is not None
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset), None
