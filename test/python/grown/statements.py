"""Grows a function, statement by statement.

A seed yields the same program on every version of Python.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from .grammar import DEPTH, KINDS, Text, enclosed

RAISED = (
    "ValueError",
    "KeyError",
    "IndexError",
    "ZeroDivisionError",
    "TypeError",
    "AttributeError",
    "LookupError",
    "ArithmeticError",
)


class Grower(Text):
    """Grows one function, `main`, including the functions defined inside it."""

    def block(self, depth: int, length: int = 4) -> None:
        before = {kind: list(names) for kind, names in self.scopes[-1].items()}
        for _ in range(self.random.randint(1, length)):
            self.statement(depth)
        if self.chance(0.9):
            # Names bound in a branch may be unbound after it; now and then they are kept all the same.
            self.scopes[-1] = before

    def statement(self, depth: int) -> None:
        self.statements += 1
        simple = [self.assign] * 6 + [
            self.assign_many,
            self.augment,
            self.store,
            self.store,
            self.show,
            self.delete,
            self.leave,
            self.call,
        ]
        compound = [
            self.branch,
            self.loop,
            self.loop,
            self.attempt,
            self.hold,
            self.function,
            self.generate,
            self.choose,
            self.count,
        ]
        chosen = self.random.choice(simple + compound if depth > 0 and self.statements < 60 else simple)
        if self.chance(0.4):
            self.guarded(chosen, depth)
        else:
            chosen(depth)

    def guarded(self, statement: Callable[[int], None], depth: int) -> None:
        """Emits a statement whose exceptions are caught and printed, so that the function continues."""
        with self.under("try:"):
            statement(depth)
        with self.under("except Exception as error:"):
            self.say("type(error).__name__, error.args")

    def assign(self, _depth: int) -> None:
        kind = self.any()
        value = self.expression(kind)
        annotation = ": object" if self.chance(0.05) else ""
        also = f" = {self.bind(kind, self.fresh())}" if self.chance(0.1) and not annotation else ""
        self.put(f"{self.target(kind)}{annotation}{also} = {value}")

    def assign_many(self, _depth: int) -> None:
        form = self.random.randrange(4)
        if form == 0:
            value = f"{self.expression('int')}, {self.expression('int')}"
            self.put(f"{self.target('int')}, {self.target('int')} = {value}")
        elif form == 1:
            value = self.expression("list")
            self.put(f"{self.target('int')}, *{self.target('list')} = {value}")
        elif form == 2:
            value = self.expression("tuple")
            self.put(f"{self.target('int')}, ({self.target('int')}) = {value}")
        else:
            value = f"({self.expression('int')}, [{self.expression('str')}, {self.expression('list')}])"
            self.put(f"{self.target('int')}, ({self.target('str')}, [*{self.target('list')}]) = {value}")

    def augment(self, _depth: int) -> None:
        operator = {
            "int": "+-*//%&|^",
            "float": "+-*/",
            "str": "+",
            "list": "+",
            "set": "|&-",
            "tensor": "+-*",
            "box": "+",
            "dict": "|",
        }
        kind = self.random.choice([kind for kind in operator if self.scopes[-1].get(kind)] or ["none"])
        if kind == "none":
            return
        name = self.random.choice(self.scopes[-1][kind])
        # The statements added below bound the growth.
        sign = self.random.choice(operator[kind])
        sign = "//" if sign == "/" and kind == "int" else sign
        self.put(f"{name} {sign}= {self.expression('int' if kind == 'box' else kind)}")
        if kind in ("str", "list"):
            self.put(f"{name} = {name}[:8]")
        elif kind == "int":
            self.put(f"{name} %= 1009")

    def store(self, _depth: int) -> None:
        form = self.random.choice(
            [
                "<list>[<int>] = <int>",
                "<list>[<int>] += <int>",
                "<list>[1:] = <list>",
                "<dict>[<word>] = <int>",
                "<dict>[<word>] += <digit>",
                "<dict>.update(<dict>)",
                "<dict>.update(b=<int>)",
                "<list>.append(<int>)",
                "<list>.extend(<list>[:2])",
                "<list>.insert(<digit>, <int>)",
                "<list>.sort(reverse=<bool>)",
                "<list>.clear()",
                "<set>.add(<int>)",
                "<box>.size = <int>",
                "<box>.size -= <digit>",
                "<box>.double = <int>",
                "<box>.label = <str>",
                "<box>.other = <int>",
                "<box>[0] = <int>",
                "setattr(<box>, 'size', <int>)",
                "del <list>[<int>]",
                "del <dict>[<word>]",
                "del <box>.size",
                *(
                    ["<tensor>.add_(<int>)", "<tensor>[0] = <int>", "<tensor>.mul_(<tensor>)"]
                    if self.tensors
                    else ["Box.shared = <int>"]
                ),
            ]
        )
        # Where no name is bound, the target is a temporary value, and the statement has no visible effect.
        self.put(self.fill(form))

    def show(self, _depth: int) -> None:
        kind = self.random.choice([kind for kind in KINDS if kind != "set"])
        self.say(f"{self.expression(kind)}, {self.expression('str', 1)}")

    def call(self, _depth: int) -> None:
        self.put(self.expression(self.random.choice(("int", "box", "list")), 2))

    def delete(self, _depth: int) -> None:
        kind = self.any()
        own = self.scopes[-1].get(kind, [])
        if own and self.chance(0.3):
            self.put(f"del {own.pop(self.random.randrange(len(own)))}")

    def leave(self, _depth: int) -> None:
        """Emits a statement that leaves a block if a condition is true."""
        ways = [
            "return <int>",
            "return <list>, <str>",
            "raise <error>(<word>)",
            "raise <error>",
            "assert <bool>, <str>",
        ]
        if self.loops:
            ways += ["break", "continue"] * 3
        way = self.random.choice(ways).replace("<error>", self.random.choice(RAISED))
        with self.under(f"if {self.expression('bool')}:"):
            self.put(self.fill(way))

    def branch(self, depth: int) -> None:
        condition = self.expression("bool")
        if self.chance(0.2):
            value = self.expression("int")
            condition = f"({self.target('int')} := {value}) > {enclosed(self.expression('int', 1))}"
        with self.under(f"if {condition}:"):
            self.block(depth - 1)
        if self.chance(0.3):
            with self.under(f"elif {self.expression('bool')}:"):
                self.block(depth - 1)
        if self.chance(0.6):
            with self.under("else:"):
                self.block(depth - 1)

    def looping(self, head: str, depth: int, bind: tuple[tuple[str, str], ...] = ()) -> None:
        self.loops += 1
        with self.under(head):
            self.step()
            for kind, name in bind:
                self.bind(kind, name)
            self.block(depth - 1)
        self.loops -= 1
        if self.chance(0.2):
            with self.under("else:"):
                self.block(depth - 1, 2)

    def loop(self, depth: int) -> None:
        i, j = self.fresh("i"), self.fresh("j")
        # A loop over a growing list ends only when the steps run out, and tensor programs do not count steps.
        walked = self.expression("list") if not self.tensors else f"tuple({self.expression('list')})"
        heads: list[tuple[str, tuple[tuple[str, str], ...]]] = [
            (f"for {i} in range({self.expression('digit')}):", (("int", i),)),
            (f"for {i} in {walked}:", (("int", i),)),
            (f"for {i}, {j} in enumerate({walked}):", (("int", i), ("int", j))),
            (f"for {i}, {j} in {self.expression('dict')}.items():", (("str", i), ("int", j))),
            (f"for {i}, {j} in zip({self.expression('tuple')}, {self.expression('str')}):", (("int", i), ("str", j))),
            (f"for {i} in {self.expression('box')}:", (("int", i),)),
            (f"for {i} in counting({self.expression('int')}):", (("int", i),)),
            (f"for {i} in sorted({self.expression('set')}):", (("int", i),)),
            (f"for {i} in reversed({self.expression('tuple')}):", (("int", i),)),
        ]
        head, bound = self.random.choice(heads)
        self.looping(head, depth, bound)

    def count(self, depth: int) -> None:
        # Nothing else assigns to this name, so the loop ends.
        name = self.fresh("n")
        self.put(f"{name} = {self.random.randint(1, 4)}")
        condition = f" and {self.expression('bool')}" if self.chance(0.4) else ""
        self.looping(f"while ({name} := {name} - 1) > 0{condition}:", depth)

    def attempt(self, depth: int) -> None:
        with self.under("try:"):
            self.block(depth - 1)
            if self.chance(0.3):
                self.put(f"raise {self.random.choice(RAISED)}({self.expression('int', 1)})")
        handled = self.chance(0.85)
        if handled:
            for _ in range(self.random.randint(1, 2)):
                error = self.fresh("e")
                caught = self.random.choice(
                    [self.random.choice(RAISED), f"({', '.join(self.random.sample(RAISED, 2))})", "Exception"]
                )
                with self.under(f"except {caught}{self.random.choice(['', f' as {error}'])}:"):
                    if self.lines[-1].endswith(f"{error}:"):
                        self.say(f"type({error}).__name__, {error}.args, {error}.__context__ is None")
                    self.block(depth - 1, 2)
                    if self.chance(0.25):
                        self.put(
                            self.random.choice(
                                [
                                    "raise",
                                    f"raise {self.random.choice(RAISED)}('again') from None",
                                    "raise RuntimeError('other')",
                                ]
                            )
                        )
            if self.chance(0.2):
                with self.under("else:"):
                    self.block(depth - 1, 2)
        if not handled or self.chance(0.35):
            # break and continue in a finally block would swallow `OutOfSteps`.
            loops, self.loops = self.loops, 0
            with self.under("finally:"):
                self.block(depth - 1, 2)
            self.loops = loops

    def hold(self, depth: int) -> None:
        name = self.fresh("h")
        swallow = f", ({self.random.choice(RAISED)},)" if self.chance(0.5) else ""
        first = f"Held({self.expression('word')}{swallow}){self.random.choice(['', f' as {name}'])}"
        second = f", Held({self.expression('int', 1)})" if self.chance(0.3) else ""
        with self.under(f"with {first}{second}:"):
            if first.endswith(name):
                self.bind("str", name)
            self.block(depth - 1)

    def function(self, depth: int) -> None:
        """Emits a nested function with its closure, and calls of it."""
        name, a, b = self.fresh("f"), self.fresh("a"), self.fresh("b")
        parameters, arguments = self.random.choice(
            [
                (f"{a}, {b}", "<int>, <int>"),
                (f"{a}, {b}={self.expression('int', 1)}", "<int>"),
                (f"{a}, /, *, {b}={self.expression('int', 1)}", f"<int>, {b}=<int>"),
                (f"{a}, {b}=2, *rest, **named", "<int>, <int>, *<list>, **<dict>"),
            ]
        )
        outer = self.scopes[-1].get("int", [])
        if self.chance(0.2):
            self.put("@traced")
        with self.under(f"def {name}({parameters}):"):
            self.step()
            self.body(
                depth - 1, {"int": [a, b]}, self.random.choice(outer) if outer and self.chance(0.4) else None, False
            )
            self.put(f"return {self.expression('int')}")
        for _ in range(self.random.randint(0, 2)):
            call = self.fill(f"{name}({arguments})")
            self.put(f"{self.target('list')} = [{call}]")

    def generate(self, depth: int) -> None:
        """Emits a nested generator, and a statement that consumes it."""
        name, a, g = self.fresh("g"), self.fresh("a"), self.fresh("it")
        with self.under(f"def {name}({a}=2):"):
            self.step()
            self.put(f"got = yield {a}")
            self.body(depth - 1, {"int": [a]}, None, True)
            self.put(
                self.random.choice(
                    ["yield got", f"yield from {self.expression('list', 1)}", f"return {self.expression('int', 1)}"]
                )
            )
        self.put(f"{g} = {name}({self.expression('int', 1)})")
        value = self.expression("int", 1)
        use = self.random.choice(
            [
                [f"@list = list({g})[:6]"],
                [f"@list = [x for x in {g}][:6]"],
                [f"@int = next({g}, 0)", f"{g}.close()"],
                [f"@tuple = (next({g}), {g}.send({value}))", f"@tuple = (*{g},)[:6]"],
                [f"@tuple = (next({g}), {g}.throw(KeyError('thrown')))"],
                [f"@int, *@list = {g}"],
            ]
        )
        for line in use:
            self.put(re.sub(r"@(\w+)", lambda found: self.target(found[1]), line))

    def body(self, depth: int, bound: dict[str, list[str]], nonlocal_: str | None, generator: bool) -> None:
        """Emits the statements of a nested function."""
        self.scopes.append(bound)
        self.locals.append({})
        loops, self.loops = self.loops, 0
        if nonlocal_:
            self.put(f"nonlocal {nonlocal_}")
            self.put(f"{nonlocal_} = ({nonlocal_} + 1) % 101")
        elif self.chance(0.15) and not self.tensors:
            self.put("global COUNT")
            self.put("COUNT += 1")
        start = len(self.lines)
        self.block(depth, 3)
        if generator and self.chance(0.5):
            self.put(f"yield {self.expression('int', 1)}")
        self.loops = loops
        self.begin(start)
        self.scopes.pop()

    def choose(self, depth: int) -> None:
        a, b = self.fresh("m"), self.fresh("m")
        arms = {
            str(self.random.randint(0, 3)): (),
            "'a' | 'b'": (),
            f"[{a}]": (("int", a),),
            f"[{a}, *{b}]": (("int", a), ("list", b)),
            f"({a}, {b})": (("int", a), ("int", b)),
            f"{{'a': {a}}}": (("int", a),),
            f"{{'b': {a}, **{b}}}": (("int", a), ("dict", b)),
            f"Box(size={a})": (("int", a),),
            f"int({a}) if {a} > 2": (("int", a),),
            "None | True": (),
        }
        chosen = self.random.sample(list(arms), 3)
        with self.under(
            f"match {self.expression(self.random.choice(('int', 'str', 'list', 'dict', 'box', 'tuple')))}:"
        ):
            for arm in chosen:
                with self.under(f"case {arm}:"):
                    for kind, name in arms[arm]:
                        self.bind(kind, name)
                    self.block(depth - 1, 2)
            if self.chance(0.5):
                with self.under("case _:"):
                    self.block(depth - 1, 2)

    def main(self, parameters: dict[str, str]) -> str:
        """The source of `main`, with parameters of these kinds."""
        self.scopes.append({})
        self.locals.append({})
        for name, kind in parameters.items():
            self.bind(kind, name)
        self.locals[-1].clear()
        with self.under(f"def main({', '.join(parameters)}):"):
            if self.tensors:
                # Changes to the arguments' containers are side effects, which few programs should have.
                self.put("said = []")
                copies = ["d = list(d)", "g = Box(g.size)"]
                for copy in copies * self.chance(0.9):
                    self.put(copy)
            for _ in range(self.random.randint(3, 9)):
                self.statement(DEPTH)
            kinds = [self.any() for _ in range(3)]
            said = ", said" if self.tensors else ""
            self.put(f"return {', '.join(self.expression(kind) for kind in kinds)}{said}")
            self.begin(1)
        return "\n".join(self.lines) + "\n"
