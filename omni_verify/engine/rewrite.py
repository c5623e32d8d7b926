"""The AST transformation behind `access`: each rule keeps Python's order of evaluation."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterable
from typing import Any

from omni_verify.engine.access_sites import site
from omni_verify.engine.escape import private_names

__all__ = ["ANY", "Rewriter", "mutable_attributes"]

# Member of a set of attribute names that stands for every name.
ANY = "*"
# Methods in which ``self`` is not shared yet.
_MAKERS = frozenset({"__init__", "__new__", "__post_init__", "__setstate__"})

# Methods of the built-in containers. A call of one becomes a point when its receiver is such a container.
_METHODS = frozenset(
    {
        *(
            "append",
            "appendleft",
            "pop",
            "popleft",
            "popitem",
            "remove",
            "discard",
            "add",
            "insert",
            "extend",
        ),
        *(
            "extendleft",
            "clear",
            "update",
            "setdefault",
            "rotate",
            "reverse",
            "sort",
            "get",
            "keys",
            "values",
        ),
        *("items", "index", "count", "copy", "move_to_end"),
    }
)
# Built-ins that read a container as a whole.
_READING = frozenset(
    {"len", "list", "tuple", "set", "frozenset", "dict", "sorted", "sum", "any", "all", "min", "max", "bool"}
)


def mutable_attributes(trees: Iterable[ast.Module]) -> frozenset[str]:
    """Names of attributes that some function stores after construction.

    The others are final: reading one is no race, so it is no decision point. Their first store still is
    one, which lets a thread that was started too early find the attribute missing.
    """
    found: set[str] = set()
    for tree in trees:
        _collect(tree, found, maker=False)
    return frozenset(found)


def _collect(node: ast.AST, found: set[str], *, maker: bool) -> None:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        maker = node.name in _MAKERS
    elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
        if not (maker and isinstance(node.value, ast.Name) and node.value.id == "self"):
            found.add(node.attr)
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("setattr", "delattr")
    ):
        name = node.args[1] if len(node.args) > 1 else None
        found.add(str(name.value) if isinstance(name, ast.Constant) else ANY)
    for child in ast.iter_child_nodes(node):
        _collect(child, found, maker=maker)


class Rewriter(ast.NodeTransformer):
    """Rewrite the functions of one module."""

    def __init__(self, filename: str, tree: ast.Module, mutable: frozenset[str]) -> None:
        self.file = os.path.basename(filename)
        self.tree = tree
        self.mutable = mutable
        self.depth = 0
        self.classes: list[str] = []
        self.private: frozenset[str] = frozenset()
        self.temporaries = 0
        self.modules = {
            (alias.asname or alias.name.split(".")[0])
            for node in ast.walk(tree)
            if isinstance(node, ast.Import)
            for alias in node.names
            if alias.name.split(".")[0] in sys.stdlib_module_names
        }
        # Variables that some function rebinds from outside its own scope: these are shared.
        self.shared = {
            name
            for node in ast.walk(tree)
            if isinstance(node, (ast.Global, ast.Nonlocal))
            for name in node.names
        }

    def rewritten(self) -> ast.Module:
        """The transformed module, ready to compile."""
        made: ast.Module = ast.fix_missing_locations(self.visit(self.tree))
        return made

    # -- scopes ----------------------------------------------------------------------------------

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.classes.append(node.name)
        depth, self.depth = self.depth, 0  # the class body itself stays as it is
        node.body = [self.visit(child) for child in node.body]
        self.depth = depth
        self.classes.pop()
        return node

    def _function(self, node: Any) -> ast.AST:
        outer, self.private = self.private, private_names(node)
        self.depth += 1
        if isinstance(node, ast.Lambda):
            node.body = self.visit(node.body)
        else:
            node.body = self._block(node.body)
        self.depth -= 1
        self.private = outer
        return node  # type: ignore[no-any-return]

    visit_FunctionDef = _function
    visit_AsyncFunctionDef = _function
    visit_Lambda = _function

    def visit(self, node: ast.AST) -> Any:
        if self.depth or isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            return super().visit(node)
        # Outside functions only nested definitions matter.
        return self.generic_visit(node) if isinstance(node, (ast.stmt, ast.ExceptHandler)) else node

    def _block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for statement in body:
            result = self.visit(statement)
            made.extend(result if isinstance(result, list) else [result])
        return made

    # -- reads -----------------------------------------------------------------------------------

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if self._is_module(node.value):
            return node
        value = self.visit(node.value)
        if not isinstance(node.ctx, ast.Load) or not self._is_mutable(node.attr):
            node.value = value
            return node
        return self._call(node, "__ov_load__", value, self._name(node.attr), self._site(node))

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        value, index = self.visit(node.value), self._index(node.slice)
        if not isinstance(node.ctx, ast.Load) or index is None or self._is_private(node.value):
            node.value = value
            node.slice = node.slice if index is None or isinstance(node.slice, ast.Slice) else index
            return node
        return self._call(node, "__ov_load_item__", value, index, self._site(node))

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id not in self.shared or not isinstance(node.ctx, ast.Load):
            return node
        # (variable(...), name)[1]: the read itself stays an ordinary read of the same scope.
        announce = self._call(node, "__ov_variable__", ast.Constant(node.id), self._site(node))
        pair = ast.Tuple([announce, node], ast.Load())
        return ast.copy_location(ast.Subscript(pair, ast.Constant(1), ast.Load()), node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        private = self._is_private(node.comparators[0])
        self.generic_visit(node)
        if private or len(node.ops) != 1 or not isinstance(node.ops[0], (ast.In, ast.NotIn)):
            return node
        test = self._call(node, "__ov_contains__", node.left, node.comparators[0], self._site(node))
        if isinstance(node.ops[0], ast.In):
            return test
        return ast.copy_location(ast.UnaryOp(ast.Not(), test), node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        position = self._site(node)
        function = node.func
        node.args = [self.visit(arg) for arg in node.args]
        node.keywords = [self.visit(keyword) for keyword in node.keywords]
        if isinstance(function, ast.Attribute):
            # A method is found on its class: calling it is a point only when the receiver is a container.
            if self._is_module(function.value):
                return node
            receiver = self.visit(function.value)
            if function.attr in _METHODS and not self._is_private(function.value):
                made = self._call(
                    node, "__ov_call__", receiver, ast.Constant(function.attr), position, *node.args
                )
                made.keywords = node.keywords
                return made
            function.value = receiver
        elif isinstance(function, ast.Name):
            whole = len(node.args) == 1 and not isinstance(node.args[0], ast.Starred)
            if function.id in _READING and whole and not self._is_private(node.args[0]):
                node.args = [self._call(node, "__ov_read__", node.args[0], position)]
            elif function.id in self.shared:
                node.func = self.visit(function)
        else:
            node.func = self.visit(function)
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        if not self._is_private(node.iter):
            node.iter = self._call(node.iter, "__ov_iterate__", self.visit(node.iter), self._site(node.iter))
        node.body, node.orelse = self._block(node.body), self._block(node.orelse)
        return node

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        node.guard = self.visit(node.guard) if node.guard is not None else None
        node.body = self._block(node.body)  # a pattern is not an expression: it stays as it is
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        if not node.is_async and not self._is_private(node.iter):
            node.iter = self._call(node.iter, "__ov_iterate__", node.iter, self._site(node.iter))
        return node

    # -- writes ----------------------------------------------------------------------------------

    def visit_Assign(self, node: ast.Assign) -> Any:
        value = self.visit(node.value)
        if len(node.targets) == 1 and isinstance(node.targets[0], (ast.Attribute, ast.Subscript, ast.Name)):
            return self._store(node.targets[0], value, node)
        if not any(self._is_shared(target) for target in node.targets):
            node.value = value
            return node
        # Several targets: bind the value once, then store from left to right as Python does.
        made: list[ast.stmt] = []
        whole = self._temporary()
        made.append(self._bind(whole, value, node))
        for target in node.targets:
            made.extend(self._unpack(target, self._use(whole, node), node))
        return made

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if node.value is None or isinstance(node.target, ast.Name):
            if node.value is not None:
                node.value = self.visit(node.value)
            return node
        return self._store(node.target, self.visit(node.value), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        target, value = node.target, node.value
        if isinstance(target, ast.Name):
            if target.id not in self.shared:
                node.value = self.visit(value)
                return node
            read: ast.expr = self.visit_Name(ast.copy_location(ast.Name(target.id, ast.Load()), node))  # type: ignore[assignment]
            made: list[ast.stmt] = []
            write: ast.expr = target
        else:
            owner = self._temporary()
            made = [self._bind(owner, self.visit(target.value), node)]
            if isinstance(target, ast.Attribute):
                write = ast.Attribute(self._use(owner, node), target.attr, ast.Store())
                read = self._call(
                    node, "__ov_load__", self._use(owner, node), self._name(target.attr), self._site(node)
                )
            else:
                index = self._index(target.slice)
                if index is None:
                    node.value = self.visit(value)
                    return node
                key = self._temporary()
                made.append(self._bind(key, index, node))
                write = ast.Subscript(self._use(owner, node), self._use(key, node), ast.Store())
                read = self._call(
                    node, "__ov_load_item__", self._use(owner, node), self._use(key, node), self._site(node)
                )
            ast.copy_location(write, node)
        result = self._temporary()
        made.append(self._bind(result, read, node))
        step = ast.AugAssign(ast.Name(result, ast.Store()), node.op, self.visit(value))
        made.append(ast.copy_location(step, node))
        made.append(self._store(write, self._use(result, node), node, visited=True))
        return made

    def visit_Delete(self, node: ast.Delete) -> Any:
        made: list[ast.stmt] = []
        for target in node.targets:
            if isinstance(target, ast.Attribute):
                arguments = (self.visit(target.value), self._name(target.attr), self._site(target))
                made.append(self._statement("__ov_delete__", node, *arguments))
            elif isinstance(target, ast.Subscript) and (index := self._index(target.slice)) is not None:
                made.append(
                    self._statement(
                        "__ov_delete_item__", node, self.visit(target.value), index, self._site(target)
                    )
                )
            else:
                made.append(ast.copy_location(ast.Delete([target]), node))
        return made

    def _store(self, target: ast.expr, value: ast.expr, node: ast.stmt, *, visited: bool = False) -> ast.stmt:
        if isinstance(target, ast.Attribute) and not self._is_module(target.value):
            owner = target.value if visited else self.visit(target.value)
            return self._statement(
                "__ov_store__", node, value, owner, self._name(target.attr), self._site(target)
            )
        if isinstance(target, ast.Subscript):
            index = target.slice if visited else self._index(target.slice)
            if index is not None:
                owner = target.value if visited else self.visit(target.value)
                return self._statement("__ov_store_item__", node, value, owner, index, self._site(target))
        if isinstance(target, ast.Name) and target.id in self.shared:
            value = self._call(node, "__ov_assign__", value, ast.Constant(target.id), self._site(target))
        return ast.copy_location(ast.Assign([target], value), node)

    def _unpack(self, target: ast.expr, value: ast.expr, node: ast.stmt) -> list[ast.stmt]:
        """Store ``value`` into one of several targets, a tuple target included."""
        if not isinstance(target, (ast.Tuple, ast.List)):
            return [self._store(target, value, node)]
        names, stores = [], []
        for element in target.elts:
            name = self._temporary()
            bare = element.value if isinstance(element, ast.Starred) else element
            slot: ast.expr = ast.Name(name, ast.Store())
            names.append(ast.Starred(slot, ast.Store()) if isinstance(element, ast.Starred) else slot)
            stores.extend(self._unpack(bare, self._use(name, node), node))
        spread = ast.copy_location(ast.Assign([ast.Tuple(names, ast.Store())], value), node)
        return [spread, *stores]

    # -- pieces ----------------------------------------------------------------------------------

    def _index(self, node: ast.expr) -> ast.expr | None:
        """The visited index; a slice becomes a slice object, and a tuple with slices inside is left alone."""
        if isinstance(node, ast.Slice):
            parts = [
                ast.Constant(None) if part is None else self.visit(part)
                for part in (node.lower, node.upper, node.step)
            ]
            return ast.Call(ast.Name("__ov_slice__", ast.Load()), parts, [])
        if isinstance(node, ast.Tuple) and any(isinstance(part, ast.Slice) for part in node.elts):
            return None
        visited: ast.expr = self.visit(node)
        return visited

    def _is_mutable(self, attribute: str) -> bool:
        return attribute in self.mutable or ANY in self.mutable

    def _is_shared(self, target: ast.expr) -> bool:
        if isinstance(target, ast.Starred):
            return self._is_shared(target.value)
        if isinstance(target, (ast.Tuple, ast.List)):
            return any(self._is_shared(element) for element in target.elts)
        return not isinstance(target, ast.Name) or target.id in self.shared

    def _is_private(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in self.private

    def _is_module(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in self.modules

    def _name(self, attribute: str) -> ast.expr:
        if attribute.startswith("__") and not attribute.endswith("__") and self.classes:
            return ast.Constant("_" + self.classes[-1].lstrip("_") + attribute)
        return ast.Constant(attribute)

    def _site(self, node: ast.AST) -> ast.expr:
        return ast.Constant(site(f"{self.file}:{getattr(node, 'lineno', 0)}"))

    def _temporary(self) -> str:
        self.temporaries += 1
        return f"__ov_{self.temporaries}__"

    def _bind(self, name: str, value: ast.expr, node: ast.AST) -> ast.stmt:
        return ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], value), node)

    def _use(self, name: str, node: ast.AST) -> ast.expr:
        return ast.copy_location(ast.Name(name, ast.Load()), node)

    def _call(self, node: ast.AST, name: str, *arguments: ast.expr) -> ast.Call:
        made = ast.copy_location(ast.Call(ast.Name(name, ast.Load()), list(arguments), []), node)
        return ast.fix_missing_locations(made)

    def _statement(self, name: str, node: ast.stmt, *arguments: ast.expr) -> ast.stmt:
        return ast.copy_location(ast.Expr(self._call(node, name, *arguments)), node)
