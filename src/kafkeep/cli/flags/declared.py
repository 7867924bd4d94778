"""Turn declared options into flags of commands.

An option is declared once, and its flag follows from it: the long name, the short one, the help.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import MISSING
from typing import Annotated, Any, TypeVar

import typer

from kafkeep.errors import UsageError
from kafkeep.options.option import Option, iter_options

T = TypeVar("T")


def with_flags(
    parameter: str | None,
    flags: Sequence[inspect.Parameter],
    make: Callable[[dict[str, Any]], Any],
    *,
    first: bool = False,
) -> Callable[..., Any]:
    """Give a command ``flags`` that it takes as one argument: what ``make`` builds of their values.

    Without a ``parameter``, ``make`` is called before the command and its result is not passed on.

    Every other parameter of the command stays a flag of its own. With ``first``, the help lists
    ``flags`` before them.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        def run(**values: Any) -> Any:
            mine = {flag.name: values.pop(flag.name) for flag in flags}
            made = make(mine)
            return command(**values, **({parameter: made} if parameter else {}))

        kept = [
            p
            for p in inspect.signature(command, eval_str=True).parameters.values()
            if p.name != parameter
        ]
        signature = inspect.Signature([*flags, *kept] if first else [*kept, *flags])
        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
        run.__doc__ = command.__doc__
        run.__name__ = command.__name__
        run.__module__ = command.__module__
        return run

    return decorate


def flag(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    """Return a flag for ``with_flags``; a flag without a default is required."""
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def with_options(
    group: type[T],
    parameter: str = "options",
    *,
    built: bool = True,
    needs: str = "",
    without: Collection[str] = (),
) -> Callable[..., Any]:
    """Give a command one flag for each option of ``group``, except those named in ``without``.

    The command takes the built group as the keyword argument ``parameter``. Without ``built`` it
    takes the values as they were given, by field, or None: for commands that also read them from
    a file. The help of each flag names the flag that it ``needs``, if any.
    """
    wanted = [option for option in iter_options(group) if option.name not in without]
    flags = [_parameter(option, needs) for option in wanted]
    return with_flags(parameter, flags, lambda mine: build(group, mine) if built else mine)


def build(group: type[T], values: dict[str, Any]) -> T:
    """Build ``group`` from flag values: parse text, and keep the default of absent flags."""
    made: dict[str, Any] = {}
    for option in iter_options(group):
        value = values.get(option.field)
        if value is None:
            if option.default is MISSING:
                raise UsageError(f"{option.flag} is missing")
            continue
        if option.goes_with and not values.get(option.goes_with):
            other = f"--{option.goes_with}"
            raise UsageError(
                f"{option.flag} requires {other}", hint=f"Add {other}, or leave out {option.flag}."
            )
        parsed = value
        if option.parse is not None and isinstance(value, str):
            parsed = _parse(option, value)
        made[option.field] = parsed
    return group(**made)


def _parse(option: Option, text: str) -> Any:
    try:
        return option.parse(text) if option.parse else text
    except UsageError as error:
        raise UsageError(f"{option.flag}: {error.message}", hint=error.hint) from error
    except ValueError as error:
        raise UsageError(f"{option.flag}: {text!r} is not a valid value") from error


def _parameter(option: Option, needs: str) -> inspect.Parameter:
    text = _help(option, needs)
    spelling = (option.flag, option.short) if option.short else (option.flag,)
    if option.is_flag:
        annotation: Any = Annotated[bool, typer.Option(*spelling, help=text)]
        default: Any = option.default
    else:
        info = typer.Option(
            *spelling,
            help=text,
            metavar=option.metavar or "TEXT",
            show_default=False,
        )
        annotation, default = Annotated[str | None, info], None
    return flag(option.field, annotation, default)


def _help(option: Option, needs: str) -> str:
    text = f"With {needs}: {option.help[0].lower()}{option.help[1:]}" if needs else option.help
    shown = "" if option.is_flag else option.default_text
    return f"{text} Default: {shown}." if shown else text
