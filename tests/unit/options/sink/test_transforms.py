"""What a chain of transforms is read from, and what is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkeep.options.option import ConfigErrors, iter_options
from kafkeep.options.sink.transform_options import InsertFieldOptions, parse_field_path
from kafkeep.options.sink.transforms import (
    PREDICATES,
    SIDED,
    WHOLE,
    known_transform_keys,
    parse_transforms,
)

P = "org.apache.kafka.connect.transforms."


def errors(given: dict[str, str]) -> dict[str, str]:
    with pytest.raises(ConfigErrors) as caught:
        parse_transforms(given)
    return caught.value.by_key


def step(kind: str, **options: str) -> dict[str, str]:
    """Return a chain of one step; ``__`` in names of options is a dot."""
    told = {f"transforms.a.{name.replace('__', '.')}": value for name, value in options.items()}
    return {"transforms": "a", "transforms.a.type": P + kind, **told}


def test_no_transforms_are_an_empty_chain() -> None:
    assert parse_transforms({"topics": "orders"}) == ()
    assert parse_transforms({"transforms": " "}) == ()


def test_steps_come_in_the_order_of_the_list_with_their_predicates() -> None:
    first, second = parse_transforms(
        {
            "transforms": "b, a",
            "transforms.a.type": P + "Filter",
            "transforms.a.predicate": "p",
            "transforms.a.negate": "TRUE",
            "transforms.b.type": "InsertField$Key",
            "transforms.b.offset.field": "o!",
            "predicates": "p",
            "predicates.p.type": P + "predicates.HasHeaderKey",
            "predicates.p.name": "h",
        }
    )
    assert (first.alias, first.kind, first.side) == ("b", "InsertField", "Key")
    assert first.options == InsertFieldOptions(offset_field="o!")
    assert (second.kind, second.side, second.negate) == ("Filter", None, True)
    assert second.predicate is not None
    assert second.predicate.options.name == "h"


def test_everything_wrong_is_named_at_once() -> None:
    wrong = errors(
        {
            "transforms": "a,b,c,d,e",
            "transforms.a.type": P + "InsertFields$Value",
            "transforms.b.type": P + "InsertField$Value",
            "transforms.b.ofset.field": "o",
            "transforms.c.type": P + "MaskField",
            "transforms.d.type": P + "ExtractField$Value",
            "transforms.d.predicate": "isTomb",
            "predicates": "isTombstone,x",
            "predicates.isTombstone.type": P + "predicates.RecordIsTombstone",
            "predicates.isTombstone.name": "n",
            "predicates.x.type": "Nope",
        }
    )
    assert set(wrong) == {
        "transforms.a.type",
        "transforms.b.ofset.field",
        "transforms.b.type",
        "transforms.c.type",
        "transforms.d.predicate",
        "transforms.d.field",
        "transforms.e.type",
        "predicates.isTombstone.name",
        "predicates.x.type",
    }
    assert "InsertField$Value" in wrong["transforms.a.type"]
    assert "TimestampRouter" in wrong["transforms.a.type"]
    assert "Did you mean offset.field?" in wrong["transforms.b.ofset.field"]
    assert "MaskField$Key or MaskField$Value" in wrong["transforms.c.type"]
    assert "Did you mean isTombstone?" in wrong["transforms.d.predicate"]
    assert "missing" in wrong["transforms.d.field"]


@pytest.mark.parametrize(
    ("given", "key"),
    [
        (step("InsertField$Value"), "type"),
        (step("InsertField$Value", static__field="s"), "static.value"),
        (step("ReplaceField$Value", renames="a:b:c"), "renames"),
        (step("ReplaceField$Value", exclude="a", blacklist="b"), "blacklist"),
        (step("MaskField$Value", fields=""), "fields"),
        (step("MaskField$Value", fields="a", replacement=""), "replacement"),
        (step("ExtractField$Value", field="`a", field__syntax__version="V2"), "field"),
        (
            step("ExtractField$Value", field="a", field__syntax__version="V3"),
            "field.syntax.version",
        ),
        (step("Cast$Value", spec="a:date"), "spec"),
        (step("Cast$Value", spec="int8,a:int8"), "spec"),
        (step("TimestampConverter$Value", target__type="string"), "format"),
        (step("TimestampConverter$Value", target__type="String", format="yyyy"), "target.type"),
        (step("TimestampConverter$Value", target__type="unix", format="bad"), "format"),
        (
            step("TimestampConverter$Value", target__type="unix", unix__precision="s"),
            "unix.precision",
        ),
        (step("HeaderFrom$Value", fields="a,b", headers="h", operation="copy"), "headers"),
        (step("HeaderFrom$Value", fields="a", headers="h", operation="drop"), "operation"),
        (step("RegexRouter", regex="(", replacement="x"), "regex"),
        (step("RegexRouter", regex="a(?=b)", replacement="x"), "regex"),
        (step("RegexRouter", regex="a", replacement="$1"), "replacement"),
        (step("TimestampRouter", timestamp__format="'open"), "timestamp.format"),
        (step("SetSchemaMetadata$Value"), "schema.name"),
        (step("SetSchemaMetadata$Value", schema__version="one"), "schema.version"),
        (step("InsertHeader", header="h"), "value.literal"),
        (step("Filter", negate="true"), "negate"),
        (step("Filter", negate="yes"), "negate"),
        (
            step("InsertField$Value", offset__field="o", replace__null__with__default="no"),
            "replace.null.with.default",
        ),
    ],
)
def test_a_setting_that_cannot_be_honoured_is_refused(given: dict[str, str], key: str) -> None:
    assert list(errors(given)) == [f"transforms.a.{key}"]


def test_every_transform_and_option_is_in_the_docs() -> None:
    page = (Path(__file__).parents[4] / "docs" / "transforms.md").read_text()
    for kind, group in {**SIDED, **WHOLE, **PREDICATES}.items():
        assert f"`{kind}`" in page
        for option in iter_options(group):
            assert f"`{option.name}`" in page, (kind, option.name)


def test_a_step_named_twice_is_refused() -> None:
    assert "transforms" in errors({**step("Filter"), "transforms": "a,a"})


def test_old_names_of_replace_field_are_taken() -> None:
    (spec,) = parse_transforms(step("ReplaceField$Value", blacklist="a, b", whitelist="c"))
    assert spec.options.blacklist == ("a", "b")
    assert spec.options.whitelist == ("c",)


def test_settings_of_a_step_that_is_not_listed_are_not_known() -> None:
    given = {**step("Filter", predicate="p"), "transforms.b.type": "x", "predicates": "p", "z": "1"}
    given["predicates.p.type"] = P + "predicates.RecordIsTombstone"
    assert set(given) - known_transform_keys(given) == {"transforms.b.type", "z"}


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("a.b", ("a", "b")),
        ("`a.b`.c", ("a.b", "c")),
        ("a.`b.c`", ("a", "b.c")),
        ("`a`b`.c", ("a`b", "c")),
        ("`a\\`.b`.c", ("a`.b", "c")),
        ("a.", ("a", "")),
    ],
)
def test_paths_in_the_second_syntax(path: str, steps: tuple[str, ...]) -> None:
    assert parse_field_path(path, "V2") == steps
    assert parse_field_path(path, "V1") == (path,)
