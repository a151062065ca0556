"""What messages are on the wire: JSON with names in lowerCamelCase, and back."""

from __future__ import annotations

import base64
import dataclasses
import enum
import functools
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, ClassVar, Self, TypeVar

T = TypeVar("T")


class OpenEnum(enum.StrEnum):
    """An enum that takes a value it does not know as it is: a newer server may answer it."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, str):
            return None
        member = str.__new__(cls, value)
        member._name_ = member._value_ = value
        return member


@dataclass(kw_only=True, slots=True)
class Model:
    """A message. What is None is left out."""

    _wire: ClassVar[dict[str, str]] = {}  # names that are not those of the fields in camel case

    unknown_fields: dict[str, Any] = field(default_factory=dict, repr=False)
    """What was received and is not of this version of the contract. It is sent back as it is."""

    def to_dict(self) -> dict[str, Any]:
        """The message as JSON."""
        found: dict[str, Any] = dict(self.unknown_fields)
        for name, wire, _ in _plan(type(self)):
            value = getattr(self, name)
            if value is not None:
                found[wire] = encode(value)
        return found

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """The message of JSON. What a server left out is empty."""
        rest = dict(value)
        found = {name: decoded(rest.pop(wire, None)) for name, wire, decoded in _plan(cls)}
        return cls(**found, unknown_fields=rest)


def encode(value: Any) -> Any:
    """A value of Python as JSON."""
    if isinstance(value, Model):
        return value.to_dict()
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone: use datetime.now(timezone.utc)")
        return value.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        micros = value // timedelta(microseconds=1)
        sign, micros = ("-", -micros) if micros < 0 else ("", micros)
        text = f"{sign}{micros // 1_000_000}.{micros % 1_000_000:06}"
        return text.rstrip("0").rstrip(".") + "s"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {name: encode(each) for name, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [encode(each) for each in value]
    return value


def decode(kind: type[T], value: Any) -> T:
    """The value of a type that JSON stands for."""
    known: Any = kind
    return typing.cast(T, _decoder(known)(value))


_Plan = list[tuple[str, str, Callable[[Any], Any]]]
_plans: dict[type[Model], _Plan] = {}


def _plan(cls: type[Model]) -> _Plan:
    """The fields of a message with their names on the wire and what decodes them."""
    if cls in _plans:
        return _plans[cls]
    hints = typing.get_type_hints(cls)
    names = [each.name for each in dataclasses.fields(cls) if each.name != "unknown_fields"]
    plan = [(name, cls._wire.get(name) or _camel(name), _decoder(hints[name])) for name in names]
    return _plans.setdefault(cls, plan)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


@functools.cache
def _decoder(kind: Any) -> Callable[[Any], Any]:
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is types.UnionType or origin is typing.Union:
        inner = _decoder(args[0])
        return lambda value: None if value is None else inner(value)
    if origin is list:
        each = _decoder(args[0])
        return lambda value: [each(item) for item in value or ()]
    if origin is dict:
        if args[1] is Any:
            return lambda value: dict(value or {})
        each = _decoder(args[1])
        return lambda value: {name: each(item) for name, item in (value or {}).items()}
    if isinstance(kind, type) and issubclass(kind, Model):
        return lambda value: kind.from_dict(value or {})
    if isinstance(kind, type) and issubclass(kind, OpenEnum):
        return lambda value: kind(value) if value else next(iter(kind))
    return _scalars.get(kind, lambda value: value)


def _time(value: Any) -> datetime:
    if not value:
        return datetime.min.replace(tzinfo=timezone.utc)
    return datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", value))


_scalars: dict[Any, Callable[[Any], Any]] = {
    str: lambda value: "" if value is None else value,
    bool: bool,
    int: lambda value: int(value or 0),  # of 64 bits it is a text
    float: lambda value: float(value or 0),
    bytes: lambda value: base64.b64decode(value or ""),
    datetime: _time,
    timedelta: lambda value: timedelta(seconds=float(value[:-1])) if value else timedelta(),
}
