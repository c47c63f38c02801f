"""What rooms can do that Tensorforce's leave at the default: names that are alike, aliases, YAML, no dotted names."""

from pathlib import Path
from typing import Any

import pytest

from axonrl.errors import ArgumentError
from axonrl.interfaces.common.forms.argument_checks import real
from axonrl.interfaces.common.forms.files import JSON, YAML
from axonrl.interfaces.common.forms.modules import resolve
from axonrl.interfaces.common.forms.rooms import Argument, Entry, Room, without_case

ADAM = Entry((Argument("rate", check=real(above=0)), Argument("beta_1", 0.9, real(), aliases=("beta1",))))
ROOMS = {
    "optimizer": Room(
        "optimizer",
        {"adam": ADAM, "rms_prop": Entry(open=True)},
        aliases={"root-mean-square": "rms_prop"},
        refused={"natural_gradient": "use adam"},
        normalized=without_case,
        dotted=False,
        suffixes=(*JSON, *YAML),
    ),
    "strict": Room("optimizer", {"adam": ADAM}),
}


def refused(spec: Any, room: str = "optimizer") -> ArgumentError:
    with pytest.raises(ArgumentError) as caught:
        resolve("m", spec, room, ROOMS)
    assert type(caught.value) is ArgumentError  # an interface makes it its own
    return caught.value


@pytest.mark.parametrize("name", ["RMSProp", "Root_Mean_Square"])
def test_case_and_dashes_do_not_count_where_the_room_says_so(name: str) -> None:
    assert resolve("m", name, "optimizer", ROOMS) == {"type": "rms_prop"}
    assert refused(name, "strict").argument == "m"


def test_an_argument_under_one_of_its_names() -> None:
    wanted = {"type": "adam", "rate": 0.1, "beta_1": 0.5}
    for name in ("beta_1", "beta1"):
        assert resolve("m", {"type": "adam", "rate": 0.1, name: 0.5}, "optimizer", ROOMS) == wanted
    error = refused({"type": "adam", "rate": 0.1, "beta1": 0.5, "beta_1": 0.5})
    assert (error.argument, error.value) == ("m['beta1']", 0.5)
    assert refused({"type": "adam", "rate": 0.1, "beta1": "half"}).argument == "m['beta1']"


def test_dotted_names_are_not_imported_where_the_room_says_so() -> None:
    assert "must be one of adam" in str(refused("json.loads"))
    assert "cannot be a class or function" in str(refused("json.loads", "strict"))
    assert "cannot be imported" in str(refused("tensorforce.Adam", "strict"))  # no prefix: a module like any other


def test_yaml_files_where_the_room_has_them(tmp_path: Path) -> None:
    file = tmp_path / "adam.yml"
    file.write_text("type: adam\nrate: 1e-3\n")
    assert resolve("m", str(file), "optimizer", ROOMS) == {"type": "adam", "rate": 0.001, "beta_1": 0.9}
    assert "not valid JSON" in str(refused(str(file), "strict"))
    file.write_text("type: [adam")
    assert "not valid YAML" in str(refused(str(file)))
    file.write_text("!!python/object/apply:os.getcwd []")
    assert "not valid YAML" in str(refused(str(file)))
    assert "cannot be read" in str(refused("missing.yaml"))
