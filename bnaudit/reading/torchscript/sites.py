"""The operators that TorchScript code reaches, each seen twice: with all training flags off and with all on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bnaudit.errors import CapExceededError, UnreadableError
from bnaudit.reading.torchscript.code import CodeLibrary
from bnaudit.reading.torchscript.interpreter import Interpreter
from bnaudit.reading.torchscript.objects import ScriptObject
from bnaudit.reading.torchscript.operator_call import OperatorCall
from bnaudit.reading.torchscript.values import Known, StoredValue, Value


class Site:
    """One place of the code where an operator is called, and the call in either mode (None: not reached in it)."""

    __slots__ = ("in_eval", "in_training")

    def __init__(self, in_eval: OperatorCall | None, in_training: OperatorCall | None) -> None:
        self.in_eval = in_eval
        self.in_training = in_training

    @property
    def calls(self) -> tuple[OperatorCall, ...]:
        """The calls, that of eval mode first."""
        return tuple(call for call in (self.in_eval, self.in_training) if call is not None)

    @property
    def call(self) -> OperatorCall:
        """The call in eval mode, else that in training mode."""
        return self.calls[0]

    def fixed_flag(self, argument: str) -> bool | None:
        """What the code fixes a flag to. True: on although every training flag is off. False: off although every one
        is on. None: it obeys them, or depends on something else."""
        off = self._flag(self.in_eval, argument)
        if off is None or off:
            return off
        return None if self.in_training is None or self._flag(self.in_training, argument) is not False else False

    def known(self, argument: str) -> Known | None:
        """The plain value of an argument, where either mode knows it."""
        return next((found for call in self.calls if (found := call.known(argument)) is not None), None)

    def number(self, argument: str) -> float | None:
        """The number in an argument."""
        found = self.known(argument)
        is_number = found is not None and isinstance(found.value, (int, float)) and not isinstance(found.value, bool)
        return float(found.value) if found is not None and is_number and found.value is not None else None

    def stored(self, argument: str) -> StoredValue | None:
        """The stored tensor in an argument."""
        return next((found for call in self.calls if (found := call.stored(argument)) is not None), None)

    def is_absent(self, argument: str) -> bool:
        """Whether an argument is None, or left out, in both modes."""
        return all(_is_none(call.arguments.get(argument)) for call in self.calls)

    @staticmethod
    def _flag(call: OperatorCall | None, argument: str) -> bool | None:
        found = call.known(argument) if call is not None else None
        return found.value if found is not None and isinstance(found.value, bool) else None


def _is_none(value: Value | None) -> bool:
    return value is None or (isinstance(value, Known) and value.value is None)


class Reached:
    """All that the code of an archive reaches from its root, and from objects that nothing else reaches.

    `nodes` is the cap on what one pass may follow: an expression costs about as much as five nodes of a graph.
    """

    def __init__(
        self, library: CodeLibrary, objects: Sequence[ScriptObject], constants: Sequence[Value], nodes: int
    ) -> None:
        self._library = library
        self._passes = [
            Interpreter(library, constants, training=training, nodes=nodes // 5) for training in (False, True)
        ]
        for interpreter in self._passes:
            self._follow_all(interpreter, objects)
        self.sites = tuple(_merge(*(interpreter.calls for interpreter in self._passes)))

    @property
    def operators(self) -> int:
        """Operator calls met in eval mode."""
        return self._passes[0].operators

    def was_followed(self, target: ScriptObject | None) -> bool:
        """Whether a method of the object was followed."""
        return any(id(target) in interpreter.visited for interpreter in self._passes)

    def reads_its_flag(self, target: ScriptObject) -> bool:
        """Whether some code asks for the object's training flag."""
        return any(id(target) in interpreter.flags_read for interpreter in self._passes)

    def _follow_all(self, interpreter: Interpreter, objects: Sequence[ScriptObject]) -> None:
        for position, target in enumerate(objects):
            if not target.is_custom_class:
                self._library.require(target.type_name)
            for method in self._entries(target, is_root=position == 0):
                if position and id(target) in interpreter.visited:
                    break
                try:
                    interpreter.follow(target, method)
                except CapExceededError as error:
                    self._library.report(target.name_of(method), str(error))
                    return
                except UnreadableError as error:
                    self._library.report(target.name_of(method), str(error))

    def _entries(self, target: ScriptObject, is_root: bool) -> Iterator[str]:
        """`forward`; of the root also what else it exports."""
        code = self._library.class_code(target.type_name)
        methods = code.methods if code is not None else {}
        if "forward" in methods:
            yield "forward"
        for name in methods if is_root or "forward" not in methods else ():
            if name != "forward" and not name.startswith("__"):
                yield name


def _merge(in_eval: list[OperatorCall], in_training: list[OperatorCall]) -> Iterator[Site]:
    """Pairs the calls of the two passes by the way that led to them, in the order in which the code has them."""
    position = {call.trail: index for index, call in enumerate(in_eval)}
    trained = {call.trail: call for call in in_training}
    done = 0
    for call in in_training:
        index = position.get(call.trail)
        if index is None:
            yield Site(None, call)
            continue
        for earlier in in_eval[done : index + 1]:
            yield Site(earlier, trained.get(earlier.trail))
        done = max(done, index + 1)
    for rest in in_eval[done:]:
        yield Site(rest, trained.get(rest.trail))
