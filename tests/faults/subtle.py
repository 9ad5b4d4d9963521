"""Mistakes of good engineers, as changes of a source: code that is right once, and wrong later.

    mutations(path, text)      every such mistake of one file, with the place it is made at
    drawn(found, texts, seed)  all of them in an order that the seed decides, the operators in turn
    mutated(text, mutation)    the file with one mistake

| operator | the mistake |
|---|---|
| late guard | a check behind a wait, or in a loop that waits, is forgotten |
| stale read | a check behind a wait looks at a value that was read before it |
| never left | a mark is set and not taken back; nothing is taken out of a collection |
| one variant | of several variants that are treated alike one is forgotten |
| swapped | two effects follow each other in the wrong order |
| other clock | the offset between the two clocks is forgotten |
| other name | a call gets another parameter of the same type |
| left out | a header or a member is forgotten in one of several places |

A wait is an `await`, a `yield`, or the begin of an asynchronous loop or block.

One rule: a mistake is told from the syntax trees alone, so that the list has no favourites.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import chain, pairwise, zip_longest
from typing import Final

from tests.faults.mutation import Mutation, rank
from tests.faults.runs import ROOT

_Edit = tuple[int, int, str]  # from, to, the new text
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Found = tuple[ast.AST, list[_Edit]]

_TAKES_OUT: Final = frozenset({"clear", "discard", "pop", "popleft", "popitem", "remove"})
_EFFECTS: Final = (
    "add", "answer", "append", "apply", "cancel", "close", "commit", "confirm", "discard", "end",
    "extend", "finish", "forget", "free", "log", "note", "pop", "put", "release", "remove",
    "rename", "reply", "send", "set", "start", "stop", "sync", "take", "tell", "truncate",
    "unlink", "wake", "write",
)  # fmt: skip
_LOGGERS: Final = ("log.", "logger.", "_log.")
_CHAINS_MAX: Final = 3  # a.b.c


class Source:
    """A file as text and as a tree, with the offset of each node."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text)
        self._lines = text.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return from which offset to which the node stands."""
        first, last = ast_range(node)
        return self._offset(*first), self._offset(*last)

    def code(self, node: ast.AST) -> str:
        begin, end = self.span(node)
        return self.text[begin:end]

    def replaced(self, node: ast.AST, code: str) -> _Edit:
        return (*self.span(node), code)

    def functions(self) -> Iterator[_Function]:
        for node in ast.walk(self.tree):
            if isinstance(node, _Function):
                yield node

    def _offset(self, line: int, column: int) -> int:
        """`ast` counts the bytes of a line."""
        before = self._lines[line - 1].encode()[:column]
        return self._starts[line - 1] + len(before.decode())


def ast_range(node: ast.AST) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the line and column of the first character, and those after the last one."""
    assert isinstance(node, ast.stmt | ast.expr | ast.keyword | ast.pattern)
    assert node.end_lineno is not None and node.end_col_offset is not None
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Yield what a function or loop runs itself, without functions inside it."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, _Function | ast.Lambda | ast.ClassDef):
            yield child
            yield from own_nodes(child)


def waits(function: ast.AST) -> list[tuple[int, int]]:
    """Return the places at which it waits, in order."""
    kinds = (ast.Await, ast.Yield, ast.YieldFrom, ast.AsyncFor, ast.AsyncWith)
    return sorted(ast_range(node)[0] for node in own_nodes(function) if isinstance(node, kinds))


def behind_a_wait(function: _Function) -> Iterator[ast.AST]:
    """Yield the nodes that may run after a wait."""
    places = waits(function)
    if not places:
        return
    looped = {
        id(inner)
        for node in own_nodes(function)
        if isinstance(node, ast.For | ast.While | ast.AsyncFor) and waits(node)
        for inner in own_nodes(node)
    }
    for node in own_nodes(function):
        if isinstance(node, ast.stmt | ast.expr) and (
            ast_range(node)[0] > places[0] or id(node) in looped
        ):
            yield node


# -- the operators ---------------------------------------------------------------------------


def late_guards(source: Source) -> Iterator[_Found]:
    for function in source.functions():
        for node in behind_a_wait(function):
            if (
                isinstance(node, ast.If)
                and not node.orelse
                and isinstance(node.body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)
            ):
                yield node, [source.replaced(node.test, "False")]


def stale_reads(source: Source) -> Iterator[_Found]:
    set_once = _set_once(source)
    for function in source.functions():
        names = {each.arg for each in chain(function.args.posonlyargs, function.args.args)}
        body = function.body[1:] if ast.get_docstring(function) else function.body
        if not body:
            continue
        first = body[0]
        begin, _ = source.span(first)
        for node in behind_a_wait(function):
            if not isinstance(node, ast.If | ast.While | ast.IfExp):
                continue
            for read in _chains(node.test):
                if (
                    _root(read) in names
                    and source.code(read) not in set_once
                    and not set(_attributes(read)) <= never_changed()
                ):
                    early = f"_early = {source.code(read)}\n{' ' * first.col_offset}"
                    yield read, [(begin, begin, early), source.replaced(read, "_early")]


def _set_once(source: Source) -> set[str]:
    """Return the private attributes that this file sets in `__init__` alone, as `self._x`: a wait
    does not change them."""
    made, changed = set[str](), set[str]()
    for function in source.functions():
        found = made if function.name == "__init__" else changed
        for node in own_nodes(function):
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
                found.add(node.attr)
    return {f"self.{name}" for name in made - changed if name.startswith("_")}


def _attributes(node: ast.expr) -> Iterator[str]:
    """Yield the names of `a.b.c` behind its first."""
    while isinstance(node, ast.Attribute):
        yield node.attr
        node = node.value


@cache
def never_changed() -> frozenset[str]:
    """Return the attributes that an object of the house gets as it is made, of whatever class, and
    that no line sets later: to read them early is no mistake."""
    made, changed = set[str](), set[str]()
    for room in ("journal", "kestrelpy"):
        for path in (ROOT / room).rglob("*.py"):
            _look_at_attributes(ast.parse(path.read_text()), made, changed)
    return frozenset(made - changed)


def _look_at_attributes(tree: ast.Module, made: set[str], changed: set[str]) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for each in node.body:
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                    made.add(each.target.id)
                elif isinstance(each, _Function):
                    changed.add(each.name)  # a property says what is true now
        elif isinstance(node, _Function):
            found = made if node.name == "__init__" else changed
            found |= {
                each.attr for each in own_nodes(node)
                if isinstance(each, ast.Attribute) and not isinstance(each.ctx, ast.Load)
            }  # fmt: skip


def _chains(node: ast.AST) -> Iterator[ast.Attribute]:
    """Yield each `a.b.c` as a whole; of `a.b.c()` it is `a.b`."""
    if isinstance(node, ast.Attribute):
        yield node
        return
    for child in ast.iter_child_nodes(node):
        is_called = isinstance(node, ast.Call) and child is node.func
        yield from _chains(child.value if is_called and isinstance(child, ast.Attribute) else child)


def never_left(source: Source) -> Iterator[_Found]:
    for function in source.functions():
        if function.name in ("__init__", "__new__", "__post_init__"):
            continue
        for node in own_nodes(function):
            if isinstance(node, ast.Delete) or (
                isinstance(node, ast.Assign)
                and isinstance(node.targets[-1], ast.Attribute)
                and _is_empty(node.value)
            ) or (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Call)
                and isinstance(node.value.func, ast.Attribute)
                and node.value.func.attr in _TAKES_OUT
            ):  # fmt: skip
                yield node, [source.replaced(node, "pass")]


def one_variant(source: Source) -> Iterator[_Found]:
    for function in source.functions():
        for node in own_nodes(function):
            yield from _without_one(source, node)


def _without_one(source: Source, node: ast.AST) -> Iterator[_Found]:
    """Leave out an operand of `or` and `and`, a member of a tuple, a type, a case, an `elif`."""
    if isinstance(node, ast.BoolOp) and len(node.values) > 1:
        yield from _joined(source, node, node.values, _JOINS[type(node.op)])
    elif isinstance(node, ast.MatchOr):
        yield from _joined(source, node, node.patterns, " | ")
    elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
        members = node.comparators[0]
        if isinstance(members, ast.Tuple | ast.Set) and len(members.elts) > 1:
            for left_out in members.elts:
                rest = [source.code(each) for each in members.elts if each is not left_out]
                yield left_out, [source.replaced(members, f"({', '.join(rest)},)")]
    elif isinstance(node, ast.Call) and source.code(node.func) == "isinstance":
        kinds = list(_types(node.args[1]))
        if len(kinds) > 1:
            yield from _joined(source, node.args[1], kinds, " | ")
    elif isinstance(node, ast.If) and len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
        yield node.orelse[0], [source.replaced(node.orelse[0].test, "False")]


def _joined(
    source: Source, whole: ast.AST, parts: Iterable[ast.AST], join: str
) -> Iterator[_Found]:
    listed = list(parts)
    for left_out in listed:
        rest = [f"({source.code(each)})" if join.strip().isalpha() else source.code(each)
                for each in listed if each is not left_out]  # fmt: skip
        yield left_out, [source.replaced(whole, f"({join.join(rest)})")]


def _types(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        yield from _types(node.left)
        yield from _types(node.right)
    elif isinstance(node, ast.Tuple):
        yield from node.elts
    else:
        yield node


def swapped(source: Source) -> Iterator[_Found]:
    for node in ast.walk(source.tree):
        for block in (getattr(node, field, None) for field in ("body", "orelse", "finalbody")):
            if not isinstance(block, list):
                continue
            for one, two in pairwise(block):
                calls = [_called(source, each) for each in (one, two)]
                if all(calls) and any(call.lstrip("_").startswith(_EFFECTS) for call in calls):
                    yield one, [
                        source.replaced(one, source.code(two)),
                        source.replaced(two, source.code(one)),
                    ]


def _called(source: Source, node: ast.stmt) -> str:
    """Return what a statement calls for its effect; "" if it is no such call, or a log line."""
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Attribute):
        return f"count {source.code(node.target)}"
    if not isinstance(node, ast.Expr):
        return ""
    call = node.value.value if isinstance(node.value, ast.Await) else node.value
    if not isinstance(call, ast.Call) or source.code(call).startswith(_LOGGERS):
        return ""
    if source.code(call.func).endswith("add_argument"):
        return ""  # nothing but the help shows the order
    return call.func.attr if isinstance(call.func, ast.Attribute) else source.code(call.func)


def other_clock(source: Source) -> Iterator[_Found]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            for side, other in ((node.right, node.left), (node.left, node.right)):
                if "offset_ms" in source.code(side) and isinstance(side, ast.Name | ast.Attribute):
                    yield side, [source.replaced(node, f"({source.code(other)})")]


def other_name(source: Source) -> Iterator[_Found]:
    for function in source.functions():
        alike: defaultdict[str, list[str]] = defaultdict(list)
        for each in chain(function.args.args, function.args.kwonlyargs):
            if each.annotation is not None:
                alike[source.code(each.annotation)].append(each.arg)
        kinds = {name: names for names in alike.values() for name in names if len(names) > 1}
        for node in own_nodes(function):
            if not isinstance(node, ast.Call):
                continue
            for argument in chain(node.args, (each.value for each in node.keywords)):
                if isinstance(argument, ast.Name) and argument.id in kinds:
                    names = kinds[argument.id]
                    other = names[(names.index(argument.id) + 1) % len(names)]
                    yield argument, [source.replaced(argument, other)]


def left_out(source: Source) -> Iterator[_Found]:
    for function in source.functions():
        for node in own_nodes(function):
            if isinstance(node, ast.Dict) and len(node.keys) > 1 and all(
                isinstance(key, ast.Constant | ast.Name | ast.Attribute) for key in node.keys
            ):  # fmt: skip
                pairs = [
                    f"{source.code(key)}: {source.code(value)}"
                    for key, value in zip(node.keys, node.values, strict=True)
                    if key is not None
                ]
                for number, key in enumerate(node.keys):
                    rest = pairs[:number] + pairs[number + 1 :]
                    assert key is not None
                    yield key, [source.replaced(node, f"{{{', '.join(rest)}}}")]
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript) and (
                isinstance(node.targets[0].slice, ast.Constant)
                and isinstance(node.targets[0].slice.value, str | bytes)
            ):  # fmt: skip
                yield node, [source.replaced(node, "pass")]


_JOINS: Final[dict[type[ast.boolop], str]] = {ast.Or: " or ", ast.And: " and "}
OPERATORS: Final[dict[str, Callable[[Source], Iterator[_Found]]]] = {
    "late guard": late_guards,
    "stale read": stale_reads,
    "never left": never_left,
    "one variant": one_variant,
    "swapped": swapped,
    "other clock": other_clock,
    "other name": other_name,
    "left out": left_out,
}


def _root(node: ast.Attribute) -> str:
    """Return the name that `a.b.c` begins with; "" for anything else and for long chains."""
    value: ast.expr = node
    for _ in range(_CHAINS_MAX):
        if not isinstance(value, ast.Attribute):
            break
        value = value.value
    return value.id if isinstance(value, ast.Name) else ""


def _is_empty(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return node.value in (None, False, True, 0, "", b"")
    if isinstance(node, ast.Call):
        return not node.args and ast.unparse(node.func) in ("set", "list", "dict", "deque")
    return isinstance(node, ast.List | ast.Dict) and not ast.unparse(node)[1:-1]


# -- as mutants ------------------------------------------------------------------------------


def mutations(path: str, text: str) -> list[Mutation]:
    """Return every mistake, in the order of the file."""
    source = Source(text)
    found = []
    for name, operator in OPERATORS.items():
        for number, (node, _) in enumerate(operator(source)):
            found.append(Mutation(path, *ast_range(node)[0], name, 0, number))
    return sorted(found)


def mutated(text: str, mutation: Mutation) -> str | None:
    """Return the file with the mistake; None if that is no program, or the same one."""
    source = Source(text)
    for number, (_, edits) in enumerate(OPERATORS[mutation.operator](source)):
        if number == mutation.occurrence:
            changed = text
            for begin, end, code in sorted(edits, reverse=True):
                changed = changed[:begin] + code + changed[end:]
            return changed if _is_another_program(text, changed) else None
    return None


def _is_another_program(text: str, changed: str) -> bool:
    try:
        return ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text))
    except SyntaxError:
        return False


def drawn(found: Iterable[Mutation], texts: dict[str, str], seed: int) -> list[Mutation]:
    """Return them in an order that looks random and is the seed's, each operator in its turn."""
    lines = {path: text.splitlines() for path, text in texts.items()}
    ranked: defaultdict[str, list[tuple[str, Mutation]]] = defaultdict(list)
    for each in found:
        ranked[each.operator].append((rank(each, lines[each.path], seed), each))
    columns = [[each for _, each in sorted(ranked[name])] for name in OPERATORS]
    rounds = chain.from_iterable(zip_longest(*columns))
    return [each for each in rounds if each is not None]
