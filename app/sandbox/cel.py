"""A small part of CEL, the language of match conditions and of rules in custom resources.

Strategy: an expression becomes one function of its variables. Offered are literals, members,
indexes, lists, `has`, `size`, `in`, comparisons, `! && || ?:`, sums, `all`, `exists` and four
questions to strings; anything else is refused when it is compiled, never misread. As in CEL, an
error on one side of `&&` or `||` does not matter if the other side decides.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from app.sandbox.objects import JsonValue

Variables = Mapping[str, JsonValue]
Program = Callable[[Variables], JsonValue]


class NotUnderstood(Exception):
    """An expression that this part of CEL cannot express."""


class CelError(Exception):
    """An expression that has no value for its variables."""


class _Token(NamedTuple):
    kind: str
    text: str


_TOKENS: Final = re.compile(
    r"""\s*(?:
        (?P<number>\d+)
      | (?P<text>'[^'\\]*'|"[^"\\]*")
      | (?P<name>[A-Za-z_]\w*)
      | (?P<sign>==|!=|<=|>=|&&|\|\||[-!<>()\[\].,?:+])
    )""",
    re.VERBOSE,
)
_END: Final = _Token("end", "")
_LITERALS: Final = {"true": True, "false": False, "null": None}
_ORDER: Final = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_METHODS: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "startsWith": str.startswith,
    "endsWith": str.endswith,
    "contains": operator.contains,
    "matches": lambda text, pattern: re.search(pattern, text) is not None,
}


@lru_cache(256)
def compile_cel(text: str) -> Program:
    """Return the function that an expression is.

    Raises:
        NotUnderstood: it is no CEL, or more of CEL than this knows.
    """
    reader = _Reader(_tokens(text), text)
    program = reader.choice()
    reader.expect_end()
    return program


def _tokens(text: str) -> list[_Token]:
    tokens, position = [], 0
    while text[position:].strip():
        part = _TOKENS.match(text, position)
        if part is None:
            raise NotUnderstood(f"the sandbox does not understand {text[position:][:20]!r}")
        kind = str(part.lastgroup)
        tokens.append(_Token(kind, part[kind]))
        position = part.end()
    return tokens


class _Reader:
    """Reads tokens by rising precedence."""

    def __init__(self, tokens: Sequence[_Token], text: str) -> None:
        self._tokens = tokens
        self._text = text
        self._next = 0
        self._members: list[tuple[Program, str]] = []  # in the order in which they were read

    def choice(self) -> Program:
        condition = self._either()
        if not self._take("?"):
            return condition
        yes = self.choice()
        self._expect(":")
        no = self.choice()
        return lambda env: (yes if _truth(condition(env)) else no)(env)

    def expect_end(self) -> None:
        if self._peek() is not _END:
            raise self._lost()

    def _either(self) -> Program:
        program = self._both()
        while self._take("||"):
            program = _logic(program, self._both(), decides=True)
        return program

    def _both(self) -> Program:
        program = self._relation()
        while self._take("&&"):
            program = _logic(program, self._relation(), decides=False)
        return program

    def _relation(self) -> Program:
        left = self._sum()
        sign = self._peek().text
        if sign not in ("==", "!=", "in", *_ORDER):
            return left
        self._next += 1
        right = self._sum()
        if sign in _ORDER:
            return lambda env: _ordered(sign, left(env), right(env))
        if sign == "in":
            return lambda env: _contains(right(env), left(env))
        return lambda env: _equal(left(env), right(env)) is (sign == "==")

    def _sum(self) -> Program:
        program = self._unary()
        while self._peek().text in ("+", "-"):
            program = _arithmetic(self._take_any().text, program, self._unary())
        return program

    def _unary(self) -> Program:
        if self._take("!"):
            inner = self._unary()
            return lambda env: not _truth(inner(env))
        if self._take("-"):
            inner = self._unary()
            return lambda env: -_number(inner(env))
        return self._postfix()

    def _postfix(self) -> Program:
        program = self._primary()
        while True:
            if self._take("."):
                name = self._expect_name()
                if self._take("("):
                    program = self._method(program, name)
                else:
                    self._members.append((program, name))
                    program = _index(program, _constant(name))
            elif self._take("["):
                program = _index(program, self.choice())
                self._expect("]")
            else:
                return program

    def _primary(self) -> Program:
        token = self._take_any()
        if token.text == "(":
            inner = self.choice()
            self._expect(")")
            return inner
        if token.text == "[":
            items = self._arguments("]")
            return lambda env: [item(env) for item in items]
        if token.kind == "number":
            return _constant(int(token.text))
        if token.kind == "text":
            return _constant(token.text[1:-1])
        if token.kind != "name":
            raise self._lost()
        if token.text in _LITERALS:
            return _constant(_LITERALS[token.text])
        if self._take("("):
            return self._function(token.text)
        return _variable(token.text)

    def _function(self, name: str) -> Program:
        before = len(self._members)
        arguments = self._arguments(")")
        if name == "has" and len(arguments) == 1 and len(self._members) > before:
            return _presence(*self._members[-1])
        if name == "size" and len(arguments) == 1:
            inner = arguments[0]
            return lambda env: _size(inner(env))
        raise NotUnderstood(f"the sandbox does not know the CEL function {name!r}")

    def _method(self, target: Program, name: str) -> Program:
        if name in ("all", "exists"):
            variable = self._expect_name()
            self._expect(",")
            condition = self.choice()
            self._expect(")")
            return _quantified(target, variable, condition, wants_all=name == "all")
        arguments = self._arguments(")")
        if name == "size" and not arguments:
            return lambda env: _size(target(env))
        method = _METHODS.get(name)
        if method is None or len(arguments) != 1:
            raise NotUnderstood(f"the sandbox does not know the CEL method {name!r}")
        (argument,) = arguments
        return lambda env: method(_text(target(env)), _text(argument(env)))

    def _arguments(self, end: str) -> list[Program]:
        arguments: list[Program] = []
        while not self._take(end):
            if arguments:
                self._expect(",")
            arguments.append(self.choice())
        return arguments

    def _peek(self) -> _Token:
        return self._tokens[self._next] if self._next < len(self._tokens) else _END

    def _take_any(self) -> _Token:
        token = self._peek()
        self._next += 1
        return token

    def _take(self, sign: str) -> bool:
        if self._peek() == _Token("sign", sign):
            self._next += 1
            return True
        return False

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            raise self._lost()

    def _expect_name(self) -> str:
        token = self._take_any()
        if token.kind != "name":
            raise self._lost()
        return token.text

    def _lost(self) -> NotUnderstood:
        return NotUnderstood(f"the sandbox does not understand the CEL expression {self._text!r}")


def _constant(value: object) -> Program:
    return lambda _env: value


def _variable(name: str) -> Program:
    def read(env: Variables) -> JsonValue:
        if name not in env:
            raise CelError(f"undeclared reference to {name!r}")
        return env[name]

    return read


def _index(target: Program, place: Program) -> Program:
    def read(env: Variables) -> JsonValue:
        container, key = target(env), place(env)
        try:
            return container[key]
        except (KeyError, IndexError, TypeError):
            raise CelError(f"no such key: {key}") from None

    return read


def _presence(target: Program, name: str) -> Program:
    def ask(env: Variables) -> bool:
        container = target(env)
        if not isinstance(container, dict):
            raise CelError(f"no such key: {name}")
        return container.get(name) is not None

    return ask


def _logic(left: Program, right: Program, *, decides: bool) -> Program:
    """`||` is decided by a truth on either side, `&&` by an untruth."""

    def ask(env: Variables) -> bool:
        try:
            if _truth(left(env)) is decides:
                return decides
        except CelError:
            if _truth(right(env)) is decides:
                return decides
            raise
        return _truth(right(env))

    return ask


def _arithmetic(sign: str, left: Program, right: Program) -> Program:
    def compute(env: Variables) -> JsonValue:
        one, other = left(env), right(env)
        if sign == "+" and isinstance(one, str) and isinstance(other, str):
            return one + other
        return _number(one) + _number(other) * (1 if sign == "+" else -1)

    return compute


def _quantified(target: Program, variable: str, condition: Program, *, wants_all: bool) -> Program:
    def ask(env: Variables) -> bool:
        truths = (_truth(condition({**env, variable: item})) for item in target(env))
        return all(truths) if wants_all else any(truths)

    return ask


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise CelError("no such overload: a condition that is no bool")
    return value


def _number(value: JsonValue) -> JsonValue:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CelError("no such overload: a number is wanted")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise CelError("no such overload: a string is wanted")
    return value


def _size(value: object) -> int:
    if not isinstance(value, str | list | dict):
        raise CelError("no such overload: size")
    return len(value)


def _contains(container: object, item: object) -> bool:
    if isinstance(container, dict):
        return item in container
    if not isinstance(container, list):
        raise CelError("no such overload: in")
    return any(_equal(item, each) for each in container)


def _equal(one: object, other: object) -> bool:
    return isinstance(one, bool) is isinstance(other, bool) and one == other


def _ordered(sign: str, one: JsonValue, other: JsonValue) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        return bool(_ORDER[sign](one, other))
    return bool(_ORDER[sign](_number(one), _number(other)))
