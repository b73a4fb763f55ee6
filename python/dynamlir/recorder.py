"""Records the ATen operations dispatched below autograd, with the identity, storage and version of their tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    UnsupportedOperatorException,
)
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from . import constants, fake_histories, memo, modes, overlap, scalars
from .aten import conversions, custom, layouts, row_lengths, schema, symbolic_composites, table, unbacked
from .device import device_of, is_constant
from .fake_memory import filler, is_beyond, is_dense
from .fakes import Faker, check_supported, is_stranger, made_fake
from .module_buffers import Buffers
from .reasons import Fallback, Location
from .recording import (
    NO_RESULT,
    InputRecord,
    OpRecord,
    Recording,
    Ref,
    TensorMeta,
    encode,
    operand_ids,
    result_leaves,
    tensors_of,
)
from .savepoints import Counts


class OpRecorder(TorchDispatchMode):
    """Records what is dispatched while it is active. New tensors become inputs, or are refused."""

    def __init__(
        self,
        recording: Recording,
        faker: Faker,
        find_tensor: Callable[[torch.Tensor], tuple[str, Callable[[], torch.Tensor]]] | None = None,
    ) -> None:
        super().__init__()
        self.recording = recording
        self.faker = faker
        self.location: Location = []
        self.builtin: str | None = None
        """The builtin function being run, if known."""
        self.failure: Fallback | None = None
        self._find_tensor = find_tensor
        self._next = 0
        self.buffers = Buffers()
        self._inputs: list[torch.Tensor] = []
        self._ids: dict[int, int] = {}
        self._alive: list[torch.Tensor] = []
        self.shown = Counts()
        """The number of values that share each storage."""
        self._input_storages: dict[int, int] = {}
        self.memo = memo.Memo(faker.mode)
        self.templates: dict[int, memo.Template] = {}
        """The templates for recording operations again, by their indices; see `repeated_layers`."""
        self.eager_facts: dict[int, dict[str, Any]] = {}
        self.versions: list[tuple[torch.Tensor, int]] = []
        """Tensors that operations have written, each with its version before."""
        self.grad_enabled = torch.is_grad_enabled()
        """True if grad mode was on when the recording began."""
        self.takes_numbers = self.has_numbers = False
        """True if numbers may be read from contents, to become known when the graph is called; true if there is one."""
        self.sources: unbacked.Sources | None = None
        """The sources of unbacked sizes; None if they are not allowed."""
        self._below_functions: list[fake_histories.Met] = []
        self.histories = fake_histories.State()
        self.blamed: set[str] = set()
        """The sources of the floats that were taken for numbers, and whose values Python needs."""
        self.reshaped = 0
        """The number of tensors that have become views of themselves in place."""
        self.reshaped_with_history: set[int] = set()
        """The values of those that have a gradient: for autograd they are not views, unlike the results of a graph."""

    # -- values

    def add_input(self, fake: torch.Tensor, name: str) -> int:
        """Declares ``fake`` an input; the same fake twice is one value but two inputs."""
        self.recording.place(device_of(fake))
        storage = fake.untyped_storage()._cdata
        number = self._input_storages.setdefault(storage, len(self._input_storages))
        meta = TensorMeta.of(fake)
        value = self._fresh(meta)
        if id(fake) not in self._ids:
            self._ids[id(fake)] = value
            self.memo.note(fake, value, meta, storage)
        self._inputs.append(fake)
        self.shown.add(storage)
        self.recording.inputs.append(InputRecord(value, name, meta, number, fake.requires_grad))
        return value

    def capture(self, real: torch.Tensor, name: str, fetch: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Makes a tensor of the module an additional input and returns its fake."""
        known = self.faker.known(real)
        if known is not None and id(known) in self._ids:
            return known
        if self._find_tensor is None:
            raise self._fail(Fallback("unknown-tensor", "a constant inside a decomposition", self.location))
        fake = self.faker.fake(real)
        self.add_input(fake, name)
        self.recording.captures.append(fetch)
        return fake

    def id_of(self, tensor: torch.Tensor) -> int:
        """Returns the value of a tensor seen before."""
        found = self._ids.get(id(tensor))
        if found is None:
            raise Fallback("unknown-tensor", f"{type(tensor).__name__} {tuple(tensor.shape)}", self.location)
        return found

    def value(self, fake: torch.Tensor) -> memo.Value | None:
        """Returns the value of a fake; None for a stranger."""
        return self.memo.value(fake)

    def number(self, fake: torch.Tensor) -> int | None:
        """Returns the number of a fake's value; None for a stranger."""
        return self._ids.get(id(fake))

    def fakes(self) -> dict[int, torch.Tensor]:
        """Returns the fake of each value that has one."""
        return {self._ids[id(fake)]: fake for fake in [*self._alive, *self._inputs]}

    def add_value(self, fake: torch.Tensor) -> int:
        """Registers a fake as a value that no operation has created: the graph does not get it."""
        meta = TensorMeta.of(fake)
        value = self._fresh(meta)
        self._note(fake, value, meta, fake.untyped_storage()._cdata)
        return value

    def rename(self, fake: torch.Tensor, meta: TensorMeta) -> int:
        """Assigns a fake to a new value with the same metadata."""
        value = self._fresh(meta)
        self._ids[id(fake)] = value
        self.memo.note(fake, value, meta, fake.untyped_storage()._cdata)
        self.reshaped += 1  # cannot be undone
        return value

    def forget_operations(self, first: int) -> None:
        """Removes the operations from this index on, to be kept elsewhere."""
        self.recording.forget(first)
        self.templates = {at: template for at, template in self.templates.items() if at < first}

    def note(
        self,
        func: OpOverload,
        args: tuple[Any, ...],
        shape: Sequence[int],
        dtype: torch.dtype,
        device: torch.device,
        version: int,
    ) -> torch.Tensor:
        """Records a call of an operator without running it; its result is a new, row-major tensor."""
        with modes.set_aside():
            out = made_fake(self.faker.mode, torch.empty(tuple(shape), dtype=dtype, device="meta"), device)
            torch._C._autograd._unsafe_set_version_counter((out,), (version,))
            self._record(func, schema.full_arguments(func, args, {}), [out], [])
        return out

    def record_made(self, func: OpOverload, full: list[Any], results: list[Any]) -> OpRecord:
        """Records a call of an operator that was not run; its results, new tensors, are given."""
        self._record(func, full, results, [])
        return self.recording.ops[-1]

    def show(self, fake: torch.Tensor) -> None:
        """Records that a value without a fake shares the memory of this one."""
        self.shown.add(fake.untyped_storage()._cdata)

    def would_be(self, real: torch.Tensor) -> memo.Value | None:
        """Returns the value that the fake of a real tensor would be, without its number; None for unknown metadata."""
        key = self.memo.key(real)
        return None if key is None else memo.Value(-1, key, self.faker.storage(real))

    def known_fake(self, real: torch.Tensor) -> torch.Tensor:
        """Returns the fake of a real tensor that the graph returns."""
        found = self.faker.known(real)
        if found is None:
            raise Fallback("unknown-tensor", "the graph returns a tensor it did not receive")
        return found

    def is_input(self, value: int) -> bool:
        """Returns true if a value is itself one of the graph's inputs."""
        return any(record.id == value for record in self.recording.inputs)

    @property
    def input_fakes(self) -> list[torch.Tensor]:
        """The fakes of the inputs, in order."""
        return self._inputs

    def note_bumps(self) -> None:
        """Records for each input how often its version counter was bumped; inputs given twice are counted once."""
        self.note_histories()
        seen: set[int] = set()
        for fake, record in zip(self._inputs, self.recording.inputs, strict=True):
            if fake.requires_grad != record.requires_grad:
                raise Fallback("autograd", f"{record.name}, an input, gets a gradient by being written")
            if fake.requires_grad and fake._version and self.recording.is_training:
                raise Fallback("autograd", f"{record.name}, an input that requires a gradient, is written")
            record.version_bumps = 0 if id(fake) in seen else fake._version
            seen.add(id(fake))

    def note_histories(self) -> None:
        """Records whether the user's operators are differentiated; see `fake_histories`."""
        with modes.set_aside():  # reading the history of a view recreates it
            fake_histories.settle(self._below_functions, self._alive)

    def _fresh(self, meta: TensorMeta) -> int:
        value = self._next
        self._next += 1
        self.recording.metas[value] = meta
        return value

    def _fail(self, failure: Fallback) -> Fallback:
        failure.location = failure.location or self.location
        self.failure = self.failure or failure
        return failure

    # -- dispatch

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func.namespace == "prim":
            return func(*args, **kwargs)
        if self.memo.varies:
            schema.fit(func, args, kwargs)
        if func is torch.ops.aten.detach.default:
            self.histories.note(self.builtin, args[0])
        try:
            if func is torch.ops.aten._local_scalar_dense.default and type(args[0]) is FakeTensor:
                if (known := constants.number(self, args[0])) is not None:
                    return known
                if (number := unbacked.call(self, func, args, kwargs)) is not NotImplemented:
                    return number
                if self.takes_numbers:
                    self.has_numbers = True
                    return scalars.read(self, args[0])
            if self.has_numbers and func.namespace != "prims" and scalars.has_any((*args, *kwargs.values())):
                return scalars.call(self, func, schema.full_arguments(func, args, kwargs))
            if self.sources is not None and (made := unbacked.call(self, func, args, kwargs)) is not NotImplemented:
                return made
            asked_each_time = self.sources is not None and self.sources.births
            call = None if asked_each_time else self.memo.call(func, args, kwargs, self._is_temporary)
            template = self.memo.known(call) if call else None
            if call is not None and template is not None and not memo.Use.checks:
                numbers = [operand.number for operand in call.operands]
                made = self.recall(template, call.tensors, numbers, self.location)
                return made[0] if template.container is None else template.container(made)
            before = len(self.recording.ops)
            out = self._dispatch(func, args, kwargs)
            if call is not None and len(self.recording.ops) == before + 1:
                self._met(call, template, out)
            return out
        except Fallback as failure:
            raise self._fail(failure) from None
        except DataDependentOutputException as error:
            raise self._fail(Fallback("data-dependent", str(error.func))) from None
        except DynamicOutputShapeException as error:
            raise self._fail(Fallback("data-dependent-size", str(error.func))) from None
        except UnsupportedOperatorException as error:
            raise self._fail(Fallback("no-fake", str(error.func))) from None

    def recall(
        self, template: memo.Template, operands: Sequence[torch.Tensor], numbers: Sequence[int], location: Location
    ) -> list[torch.Tensor]:
        """Records an operation that was seen before, on other tensors of the same metadata, without running it.

        ``numbers`` are the operands' values.
        """
        return self.made_again(template, operands, self.record_again(template, numbers, location))

    def record_again(self, template: memo.Template, numbers: Sequence[int], location: Location) -> list[int]:
        """Records an operation seen before, on other values with the same metadata; returns the results' values."""
        args, raw = template.arguments(numbers)
        ids = [self._fresh(leaf.meta) for leaf in template.leaves]
        known = template.record
        assert known.raw is not None
        self.templates[len(self.recording.ops)] = template
        self.recording.append(
            OpRecord(
                schema=known.schema,
                args=args,
                operands=list(numbers),
                results=known.results,
                result_ids=ids,
                aliases=known.aliases,
                mutates=known.mutates,
                functional=None,
                grad_enabled=known.grad_enabled,
                location=location,
                raw=(known.raw[0], raw),
                random=known.random,
                needs_grad=known.needs_grad,
            )
        )
        return ids

    def made_again(
        self, template: memo.Template, operands: Sequence[torch.Tensor | None], ids: Sequence[int]
    ) -> list[torch.Tensor]:
        """Returns fakes for the results ``ids`` of such an operation. Needs the operands whose memory they share."""
        made = self.memo.recall(template, operands)
        for leaf, value, fake in zip(template.leaves, ids, made):
            self._note(fake, value, leaf.meta, fake.untyped_storage()._cdata)
        return made

    def _met(self, call: memo.Call, template: memo.Template | None, out: Any) -> None:
        """Caches a call that was run on fakes; while checking, compares it with the cached result."""
        at = len(self.recording.ops) - 1
        record = self.recording.ops[at]
        if template is not None:
            memo.check(template, self.memo.recall(template, call.tensors), call, out, record)
            return
        template = self.memo.remember(call, out, record)
        if template is not None:
            self.templates[at] = template

    def _dispatch(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func.namespace == "prims":
            with self:
                return schema.by_aten(func)(*args, **kwargs)
        known = schema.info(func)
        if known.facts.refused is not None:
            raise Fallback(known.facts.refused, str(func))
        if known.facts.instead is not None:
            return self._dispatch(getattr(torch.ops.aten, known.facts.instead).default, args, kwargs)
        if known.facts.lifts_constant:
            return constants.record(self, func, args, kwargs)
        full = schema.full_arguments(func, args, kwargs)
        if any(is_stranger(leaf) for leaf in tensors_of(full)):
            full = pytree.tree_map_only(torch.Tensor, self.adopt, full)
        positional, keywords = schema.call(func, full)
        if known.inplace_view:
            return self._inplace_view(func, full, positional, keywords)
        return self._ordinary(func, full, positional, keywords)

    def _ordinary(self, func: OpOverload, full: list[Any], positional: tuple[Any, ...], keywords: Any) -> Any:
        facts = schema.info(func).facts
        tensors = tensors_of(full)
        written = [leaf for at in schema.written_arguments(func, full) for leaf in tensors_of([full[at]])]
        if written:
            overlap.check(func, tensors, written)
            fake_histories.refuse_write(self, written)
            if facts.draws is not None and not written[0].is_contiguous():
                drawn = self._drawn_in_memory_order(func, facts.draws, full, written[0])
                if drawn is not None:
                    return drawn
        deterministic = torch.are_deterministic_algorithms_enabled()
        if deterministic and facts.nondeterministic:
            raise Fallback("thread-state", f"{func} under deterministic algorithms")
        if self.memo.varies and self.memo.assumes:
            row_lengths.assume_short(func, full)
        versions = [tensor._version for tensor in tensors]
        before = [(tensor.shape, tensor.stride(), tensor.storage_offset()) for tensor in written]
        self.versions += [(tensor, tensor._version) for tensor in written]
        out = (
            symbolic_composites.operator(func, *positional, **keywords)
            if self.memo.varies
            else func(*positional, **keywords)
        )
        out = layouts.as_eager(func, positional, keywords, out)
        conversions.check(func, full, out)
        for tensor, version in zip(tensors, versions):
            right = version + schema.counts_by_itself(func) * any(tensor is other for other in written)
            if tensor._version != right:  # the fake implementation's own writes are not eager's
                torch._C._autograd._unsafe_set_version_counter((tensor,), (right,))
        for tensor, old in zip(written, before):
            if (tensor.shape, tensor.stride(), tensor.storage_offset()) != old:
                raise Fallback("metadata-mutation", f"{func} resizes its output")
        if facts.absolute_offset and is_beyond(out):
            raise Fallback("tracing-error", "as_strided beyond the memory")
        leaves = result_leaves(out, facts.results)
        constants.keep_known(leaves, tensors, facts.uninitialised)
        if facts.counting_factory and self.builtin not in (None, func._schema.name.split("::")[-1]) and not tensors:
            torch._C._autograd._unsafe_set_version_counter((out,), (1,))
        if facts.is_question and not written:
            return out  # of metadata: fakes refuse queries of contents
        if out is None and not func._schema.returns:
            leaves = []  # a check: kept for the error it may raise
        self._record(func, full, leaves, written)
        settings: Any = torch.utils.deterministic
        if facts.uninitialised and deterministic and settings.fill_uninitialized_memory:
            self._record(torch.ops.aten.fill_.Scalar, [out, filler(out.dtype)], [out], [out])
        return out

    def _drawn_in_memory_order(
        self, func: OpOverload, draws: table.Draws, full: list[Any], written: torch.Tensor
    ) -> Any:
        """Draws random numbers for a tensor that is not row-major, as eager does. The functional variant draws some of
        them row by row, so the tensor is permuted for it; returns None if it draws as eager does."""
        if draws is table.Draws.BY_DENSITY:
            if not is_dense(written):
                raise Fallback("unsupported", f"{func} on a tensor with gaps")
            return None
        if any(tensor is not written for tensor in tensors_of(full)):
            return None
        order = sorted(range(written.dim()), key=written.stride, reverse=True)
        if order == list(range(written.dim())):
            return None
        with self:
            func(written.permute(order), *full[1:-1], generator=full[-1])
        return written

    def _record(self, func: OpOverload, full: list[Any], leaves: list[Any], written: list[torch.Tensor]) -> None:
        for leaf in leaves:
            if leaf is not None and not isinstance(leaf, torch.Tensor):
                raise Fallback("non-tensor-result", str(func))
        grad = torch.is_grad_enabled()
        operands = tensors_of(full)
        needs_grad = tuple(at for at, tensor in enumerate(operands) if tensor.requires_grad) if grad else ()
        args = encode(full, self.id_of)
        func = func if written else schema.without_writes(func)
        known = schema.info(func)
        written_ids = {id(tensor) for tensor in written}
        mutates = [position for position, tensor in enumerate(operands) if id(tensor) in written_ids]
        functional = schema.require_functional(func) if mutates else None
        results, ids, aliases = self._results(known, leaves, operands)
        raw_full = schema.functional_arguments(func, functional, full) if functional else full
        raw = [self._refs(value) for value in raw_full]
        if known.facts.absolute_offset:
            self.recording.offset_sensitive = True
        if any(operands[at].untyped_storage()._cdata in self._input_storages for at in mutates):
            self.recording.mutates_inputs = True
            if not set(needs_grad).isdisjoint(mutates):
                raise Fallback("autograd", f"{func} writes an input that requires a gradient")
        record = OpRecord(
            schema=known.name,
            args=args,
            operands=list(operand_ids(args)),
            results=results,
            result_ids=ids,
            aliases=aliases,
            mutates=mutates,
            functional=str(functional) if functional else None,
            grad_enabled=grad,
            location=self.location,
            raw=(functional or func, raw),
            random=schema.may_draw(func, full),
            needs_grad=needs_grad,
        )
        self.recording.append(record, self.builtin in ("detach", "getattr"))
        if not grad and func.namespace not in custom.TORCHS and any(tensor.requires_grad for tensor in operands):
            self._below_functions.append((record, operands, leaves))

    def _refs(self, value: Any) -> Any:
        """Returns an argument with references instead of tensors."""
        if isinstance(value, torch.Tensor):
            return Ref(self.id_of(value))
        return [self._refs(element) for element in value] if isinstance(value, (list, tuple)) else value

    def _results(
        self, known: schema.Operator, leaves: list[Any], operands: list[torch.Tensor]
    ) -> tuple[list[TensorMeta], list[int], list[int]]:
        storages = [tensor.untyped_storage()._cdata for tensor in operands]
        metas: list[TensorMeta] = []
        ids: list[int] = []
        aliases: list[int] = []
        fresh: set[int] = set()
        for leaf in leaves:
            if leaf is None:
                metas.append(NO_RESULT)
                ids.append(self._fresh(NO_RESULT))
                aliases.append(-1)
                continue
            check_supported(leaf)
            if not is_constant(known.facts, operands, leaf):
                self.recording.place(device_of(leaf))
            meta = TensorMeta.of(leaf)
            storage = leaf.untyped_storage()._cdata
            same = [at for at, operand in enumerate(operands) if operand is leaf]
            shared = same or [at for at, other in enumerate(storages) if other == storage]
            alias = shared[0] if shared else -1
            if alias < 0 and storage in self.shown and storage not in fresh:
                raise Fallback("unknown-tensor", f"{known.name} returns memory that is not an operand's")
            if known.facts.unsafe_view and self._is_temporary(storage):
                alias = -1
            value = self._fresh(meta)
            if alias < 0 and storage in fresh:
                raise Fallback("unknown-tensor", f"{known.name} returns results that share memory")
            if alias < 0:
                fresh.add(storage)
            if not same:
                self._note(leaf, value, meta, storage)
            metas.append(meta)
            ids.append(value)
            aliases.append(alias)
        return metas, ids, aliases

    def _note(self, fake: torch.Tensor, value: int, meta: TensorMeta, storage: int) -> None:
        """Records that a new fake is a value."""
        self._ids[id(fake)] = value
        self.memo.note(fake, value, meta, storage)
        self._alive.append(fake)
        self.shown.add(storage)

    def _is_temporary(self, storage: int) -> bool:
        """Returns true if only one value shares a storage that is not an input's."""
        return storage not in self._input_storages and self.shown.of(storage) == 1

    # -- special cases

    def _inplace_view(self, func: OpOverload, full: list[Any], positional: tuple[Any, ...], keywords: Any) -> Any:
        """Handles a tensor object that changes its shape: records the view, which the object is from here on."""
        view = schema.inplace_view(func)
        target = full[0]
        if view is None:
            raise Fallback("metadata-mutation", str(func))
        if self.is_input(self.id_of(target)):
            raise Fallback("metadata-mutation", f"{func} on an input")
        args = encode(full, self.id_of)
        raw = [self._refs(value) for value in full]
        self.reshaped += 1
        version = target._version
        out = func(*positional, **keywords)
        if target._version != version:
            torch._C._autograd._unsafe_set_version_counter((target,), (version,))
        if schema.info(view).facts.absolute_offset:
            self.recording.offset_sensitive = True
        meta = TensorMeta.of(target)
        value = self._fresh(meta)
        self.recording.append(
            OpRecord(
                schema=str(view),
                args=args,
                operands=list(operand_ids(args)),
                results=[meta],
                result_ids=[value],
                aliases=[0],
                mutates=[],
                functional=None,
                grad_enabled=torch.is_grad_enabled(),
                location=self.location,
                raw=(view, raw),
                needs_grad=(0,) if target.requires_grad and torch.is_grad_enabled() else (),
            )
        )
        self._ids[id(target)] = value
        if target.requires_grad:
            self.reshaped_with_history.add(value)
        self.memo.note(target, value, meta, target.untyped_storage()._cdata)
        return out

    def adopt(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns a fake for a real tensor used as operand: one that the module holds."""
        if not is_stranger(tensor):
            return tensor
        if self._find_tensor is None:
            raise Fallback("unknown-tensor", f"{type(tensor).__name__} {tuple(tensor.shape)}")
        with modes.set_aside():
            return self.capture(tensor, *self._find_tensor(tensor))
