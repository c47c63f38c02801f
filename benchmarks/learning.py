"""How well the shipped experiments learn: one run per seed, and two rows of a Markdown table per experiment.

    python benchmarks/learning.py dqn_cartpole --seeds 100-109
    python benchmarks/learning.py dqn_acrobot dqn_lunarlander --seeds 100-102,7 --page docs/algorithms/dqn.md
    python benchmarks/learning.py ppo_cartpole dqn_cartpole --seeds 100-102 --picture docs/images/cartpole.png

The rows are the greedy returns of the best policy kept during training, and of the last one. A run is that of
``axonrl run``; its folder stays below ``runs/learning``. A finished run is not repeated, and an unfinished one is
resumed. With ``--page`` the table replaces the one below the line of the page that holds this command. With
``--picture`` the training curves of the experiments, which must be of one environment, are drawn as PNG and SVG.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RUNS = Path("runs") / "learning"
HEAD = """\
| experiment | policy | mean and 95 % interval | of each seed | seeds | episodes | last timestep |
|---|---|---|---|---|---|---|"""


def seeds(text: str) -> list[int]:
    """The seeds in ``"100-109,7"``: numbers and inclusive ranges, in the given order."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not (first.isdecimal() and (last.isdecimal() or not dash)):
            raise argparse.ArgumentTypeError(
                f"{part.strip()!r} is not a seed or a range of seeds, such as 7 or 100-109"
            )
        if dash and int(last) < int(first):
            raise argparse.ArgumentTypeError(f"the range {part.strip()!r} ends before it starts")
        found += range(int(first), int(last or first) + 1)
    duplicates = sorted({seed for seed in found if found.count(seed) > 1})
    if duplicates:
        raise argparse.ArgumentTypeError(f"duplicate seeds: {', '.join(map(str, duplicates))}")
    return found


def student_t(count: int) -> float:
    """Two-sided 95 % point of Student's t for the mean of so many values.

    Found by bisection in the finite series for P(|T| < t), Abramowitz and Stegun 1964, 26.7.3 and 26.7.4.
    """
    freedom = count - 1
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        angle = (low + high) / 2
        low, high = (angle, high) if _probability(angle, freedom) < 0.95 else (low, angle)
    return math.sqrt(freedom) * math.tan(low)


def _probability(angle: float, freedom: int) -> float:
    """P(|T| < sqrt(freedom) * tan(angle))."""
    odd = freedom % 2
    term, total = (math.cos(angle) if odd else 1.0), 0.0
    for power in range(2 + odd, freedom + 1, 2):
        total += term
        term *= (power - 1) / power * math.cos(angle) ** 2
    total *= math.sin(angle)
    return (angle + total) * 2 / math.pi if odd else total


def interval(returns: Sequence[float]) -> str:
    """The mean, with half the width of its 95 % interval where there are several values."""
    mean = statistics.mean(returns)
    if len(returns) == 1:
        return f"{mean:.1f}"
    return f"{mean:.1f} ± {student_t(len(returns)) * statistics.stdev(returns) / math.sqrt(len(returns)):.1f}"


def folder_of(experiment: str, seed: int) -> Path:
    """The run folder of one seed."""
    return RUNS / f"{experiment}-{seed}"


def result(experiment: str, seed: int) -> dict[str, Any]:
    """Both evaluations of one seed, and its last timestep; trains first where that has not been done."""
    folder = folder_of(experiment, seed)
    file = folder / "learning.json"
    settings = (ROOT / "experiments" / f"{experiment}.yml").read_text(encoding="utf-8")
    if file.exists():
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if found["settings"] != settings:
            sys.exit(
                f"{folder} is a run with other settings than experiments/{experiment}.yml. Delete it to run again."
            )
        return found
    resume = ["--resume"] if folder.exists() else []
    trained = _axonrl("run", experiment, "--set", f"seed={seed}", "--model-dir", str(folder), *resume)
    last = _axonrl("evaluate", str(folder), "--policy", "last")
    found = {"settings": settings, "best": trained["evaluation"], "last": last, "timesteps": trained["timesteps"]}
    file.write_text(json.dumps(found, indent=2), encoding="utf-8")
    return found


def _axonrl(*arguments: str) -> dict[str, Any]:
    """The output of a command with ``--json``; its errors and its progress are shown."""
    command = [str(Path(sys.executable).with_name("axonrl")), *arguments, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed with exit code {done.returncode}")
    return dict(json.loads(done.stdout))


def rows(experiment: str, wanted: Sequence[int], spelled: str) -> list[str]:
    """A row for the best policy and one for the last."""
    results = [result(experiment, seed) for seed in wanted]
    lines = []
    for policy in ("best", "last"):
        returns = [one[policy]["episode_return_mean"] for one in results]
        each = ", ".join(f"{value:.1f}" for value in returns)
        episodes, timesteps = results[0][policy]["episodes"], max(one["timesteps"] for one in results)
        lines.append(
            f"| `{experiment}` | {policy} | {interval(returns)} | {each} | {spelled} | {episodes:.0f} | {timesteps:,} |"
        )
    return lines


def insert(page: str, command: str, table: str) -> str:
    """The page with ``table`` in place of the first table below the line ``command``.

    Raises:
        ValueError: the page lacks the line, or a table below it.
    """
    lines = page.splitlines()
    if command not in lines:
        raise ValueError(f"it has no line {command!r}")
    at = lines.index(command)
    start = next((i for i in range(at, len(lines)) if lines[i].startswith("|")), None)
    if start is None:
        raise ValueError(f"it has no table below the line {command!r}")
    end = next((i for i in range(start, len(lines)) if not lines[i].startswith("|")), len(lines))
    return "\n".join([*lines[:start], table, *lines[end:]]) + "\n"


def arguments_of(given: Sequence[str] | None = None) -> tuple[argparse.Namespace, list[int]]:
    """The command line, and its seeds; an invalid one ends the process with a message."""
    shipped = sorted(file.stem for file in (ROOT / "experiments").glob("*.yml"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiments", nargs="+", choices=shipped, metavar="EXPERIMENT", help="a shipped experiment")
    parser.add_argument("--seeds", default="0-4", help="such as 11, 0-4 or 100-109,7 (default: %(default)s)")
    parser.add_argument("--page", type=Path, help="the Markdown page whose table is replaced")
    parser.add_argument("--picture", type=Path, help="where to draw the training curves: a .png or a .svg")
    arguments = parser.parse_args(given)
    if arguments.picture is not None and arguments.picture.suffix not in (".png", ".svg"):
        parser.error(f"argument --picture: must end in .png or .svg, got {arguments.picture}")
    try:
        return arguments, seeds(arguments.seeds)
    except argparse.ArgumentTypeError as error:
        parser.error(f"argument --seeds: {error}")


def main() -> None:
    arguments, wanted = arguments_of()
    table = "\n".join([HEAD, *(row for name in arguments.experiments for row in rows(name, wanted, arguments.seeds))])
    print(table)
    if arguments.page is not None:
        command = f"python benchmarks/learning.py {' '.join(arguments.experiments)} --seeds {arguments.seeds}"
        try:
            arguments.page.write_text(insert(arguments.page.read_text(encoding="utf-8"), command, table), "utf-8")
        except ValueError as error:
            sys.exit(f"{arguments.page}: {error}")
    if arguments.picture is not None:
        from axonrl.benchmarks.picture import draw

        folders = {name: [folder_of(name, seed) for seed in wanted] for name in arguments.experiments}
        try:
            written = draw(arguments.picture, folders, arguments.seeds)
        except (ValueError, OSError) as error:
            sys.exit(f"{arguments.picture}: {error}")
        print(*written)


if __name__ == "__main__":
    main()
