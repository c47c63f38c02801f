"""A run in MLflow: in a store of its own, and on a server."""

import copy
import math
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from axonrl.experiments.tracking.journal import Journal
from axonrl.experiments.tracking.mlflow import MLflowError, MLflowTracker
from axonrl.tests.experiments.sharing import StubServer, free_port, tracked_run, wait

pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy")  # MLflow's stores, at import

UUID = "0123456789abcdef0123456789abcdef"
INPUTS = {"rate": 0.5, "train.max_timesteps": 40, "environment.id": "CartPole-v1", "hooks": [], "empty": None}
URI, LENGTH = "sqlite:///fake", "rollout/length"


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, in which MLflow's stores keep files; what the tracker sets for its process is taken back."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("MLFLOW_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(os, "environ", os.environ.copy())
    return tmp_path


class Store:
    """``MlflowClient``'s methods for a tracker, in memory. The test of a real server shows what MLflow itself does."""

    tracking_uri = "fake"

    def __init__(self) -> None:
        self.experiments: dict[str, str] = {}
        self.found: list[Any] = []
        self.metrics: dict[str, list[Any]] = {}
        self.files: dict[str, str] = {}

    def get_experiment_by_name(self, name: str) -> Any:
        number = self.experiments.get(name)
        return number and SimpleNamespace(experiment_id=number)

    def create_experiment(self, name: str) -> str:
        return self.experiments.setdefault(name, str(len(self.experiments)))

    def search_runs(self, experiments: list[str], filter_string: str = "", max_results: int = 1) -> list[Any]:
        return [run for run in self.found if run.data.tags["axonrl.uuid"] in (filter_string or UUID)]

    def create_run(self, experiment: str, start_time: int | None, tags: dict[str, str], name: str) -> Any:
        info = SimpleNamespace(run_id="1", run_name=name, status="RUNNING", start_time=start_time, end_time=None)
        self.found.append(SimpleNamespace(info=info, data=SimpleNamespace(tags=tags, params={}, metrics={})))
        return copy.deepcopy(self.found[-1])

    def set_tag(self, run_id: str, name: str, value: str) -> None:
        self.found[0].data.tags[name] = value

    def update_run(self, run_id: str, status: str) -> None:
        self.found[0].info.status, self.found[0].info.end_time = status, None

    def set_terminated(self, run_id: str, status: str, end_time: int) -> None:
        self.found[0].info.status, self.found[0].info.end_time = status, end_time

    def log_batch(self, run_id: str, metrics: Sequence[Any] = (), params: Sequence[Any] = ()) -> None:
        assert len(metrics) <= 1000
        assert len(params) <= 100
        for param in params:
            assert self.found[0].data.params.setdefault(param.key, param.value) == param.value
        for metric in metrics:
            held = self.metrics.setdefault(metric.key, [])
            if dict(metric) not in map(dict, held[-3:]):
                held.append(metric)
            self.found[0].data.metrics[metric.key] = metric.value

    def get_metric_history(self, run_id: str, name: str) -> list[Any]:
        return list(self.metrics.get(name, []))

    def log_artifact(self, run_id: str, source: str, folder: str | None) -> None:
        self.files["/".join(filter(None, [folder, Path(source).name]))] = Path(source).read_text()

    def log_text(self, run_id: str, text: str, name: str) -> None:
        self.files[name] = text


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    """Where the trackers of a test push to."""
    store = Store()
    monkeypatch.setattr("axonrl.experiments.tracking.mlflow._connect", lambda _: store)
    return store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    return folder


@pytest.fixture
def journal(folder: Path) -> Iterator[Journal]:
    """The journal of a run that has begun."""
    journal = Journal(folder)
    begin(journal)
    yield journal
    journal.close()


def begin(journal: Journal, **inputs: Any) -> None:
    journal.write(run={"uuid": UUID, "name": "tried", "description": "a try", "inputs": INPUTS | inputs})
    journal.status("created")
    journal.status("running")


def runs(store: Any, experiment: str = "axonrl") -> list[Any]:
    return list(store.search_runs([store.get_experiment_by_name(experiment).experiment_id]))


def held(store: Any, name: str) -> list[tuple[int, float]]:
    """Step and value of all that MLflow holds of a metric."""
    (run,) = runs(store)
    return sorted((metric.step, metric.value) for metric in store.get_metric_history(run.info.run_id, name))


class Sent:
    """Sees what is sent to MLflow; its stores would hide some of what is sent twice."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from mlflow import MlflowClient

        self.metrics: list[tuple[str, int]] = []
        """Name and step of each value."""
        self.losing = 0
        """The answer to that batch from now on is lost, although it arrives."""
        for kind in (MlflowClient, Store):
            monkeypatch.setattr(kind, "log_batch", self._watched(kind.log_batch))

    def _watched(self, real: Callable[..., Any]) -> Callable[..., None]:
        def log_batch(client: Any, run_id: str, metrics: Sequence[Any] = (), **named: Any) -> None:
            real(client, run_id, metrics, **named)
            self.metrics += [(metric.key, metric.step) for metric in metrics]
            self.losing -= 1
            if self.losing == 0:
                raise OSError("the answer was lost")

        return log_batch


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    return Sent(monkeypatch)


# -- what MLflow holds ------------------------------------------------------------------------------------------------


def test_episodes_of_the_same_length_that_end_together_are_all_there(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_700_000_000.0)
    journal = Journal(folder)
    begin(journal)
    for _ in range(3):
        journal.write(step=500, metrics={LENGTH: 125.0})
    journal.write(step=1000, metrics={LENGTH: 125.0})
    tracker = MLflowTracker(URI)
    tracker.push(tracked_run(folder))
    journal.write(step=1000, metrics={LENGTH: 125.0})
    journal.close()
    tracker.push(tracked_run(folder))
    MLflowTracker(URI).push(tracked_run(folder))
    assert held(store, LENGTH) == [(500, 125.0)] * 3 + [(1000, 125.0)] * 2


def test_what_a_resume_takes_back_and_measures_again_is_there_once_and_sent_once(
    store: Store, folder: Path, journal: Journal, sent: Sent
) -> None:
    for step in (10, 20, 30):
        journal.write(step=step, metrics={"rollout/return": float(step)})
    tracker, run = MLflowTracker(URI), tracked_run(folder)
    tracker.push(run)
    begin(journal)
    journal.write(cut=15, update=0, episode=0)
    journal.write(step=20, metrics={"rollout/return": 20.0, "train/loss": 0.5})  # the loss had not been written yet
    run.read()
    tracker.push(run)
    journal.write(step=30, metrics={"rollout/return": 30.0})
    journal.write(step=40, metrics={"rollout/return": 40.0})
    run.read()
    tracker.push(run)
    tracker.push(run)
    MLflowTracker(URI).push(tracked_run(folder))
    assert held(store, "rollout/return") == [(10, 10.0), (20, 20.0), (30, 30.0), (40, 40.0)]
    assert len(sent.metrics) == 5
    (found,) = runs(store)  # the times are the journal's
    assert found.info.start_time == round(run.statuses[0].time * 1000)
    ((loss,), (point,)) = store.metrics["train/loss"], [one for one in run.points if one.name == "train/loss"]
    assert (loss.step, loss.value, loss.timestamp) == (20, 0.5, round(point.time * 1000))


@pytest.mark.parametrize(
    ("batch", "same"), [(2, True), (3, False)], ids=["in the middle, same process", "the last one, next process"]
)
def test_a_batch_whose_answer_is_lost_is_not_sent_again(
    store: Store, folder: Path, journal: Journal, sent: Sent, batch: int, same: bool
) -> None:
    tracker, run = MLflowTracker(URI), tracked_run(folder)
    tracker.push(run)
    for step in range(1050):
        journal.write(step=step, metrics={"rollout/return": 1.0, LENGTH: 7.0})
    run.read()
    sent.losing = batch
    with pytest.raises(MLflowError, match="the answer was lost"):
        tracker.push(run)
    (tracker if same else MLflowTracker(URI)).push(run)
    assert held(store, "rollout/return") == [(step, 1.0) for step in range(1050)]
    assert held(store, LENGTH) == [(step, 7.0) for step in range(1050)]
    assert sorted(sent.metrics) == [(name, step) for name in (LENGTH, "rollout/return") for step in range(1050)]


def test_values_that_are_no_numbers_are_kept_and_names_that_mlflow_refuses_written_otherwise(
    store: Store, folder: Path, journal: Journal
) -> None:
    journal.write(step=1, metrics={"train/loss (actor)": math.nan, "train/../x": math.inf, "train//y": 3.0})
    for _ in range(2):
        MLflowTracker(URI).push(tracked_run(folder))
    ((_, loss),) = held(store, "train/loss _actor_")
    assert math.isnan(loss)
    assert held(store, "train_.._x") == [(1, math.inf)]
    assert held(store, "train__y") == [(1, 3.0)]


# -- the run's own data -----------------------------------------------------------------------------------------------


def test_name_description_and_params(store: Store, folder: Path, journal: Journal) -> None:
    group = {"name": "pole", "uuid": "9f" * 16}
    inputs = INPUTS | {"long": "x" * 7000, **{f"more.{index}": index for index in range(150)}}
    journal.write(run={"uuid": UUID, "name": "pole-3", "description": "a try", "inputs": inputs, "group": group})
    MLflowTracker(URI, "mine").push(tracked_run(folder))
    (run,) = runs(store, "mine")
    assert run.info.run_name == "pole-3"
    tags = [run.data.tags[name] for name in ("mlflow.note.content", "axonrl.uuid", "axonrl.group")]
    assert tags == ["a try", UUID, "pole-9f9f9f9f"]
    expected = {"rate": "0.5", "train.max_timesteps": "40", "environment.id": "CartPole-v1", "hooks": "[]"}
    expected |= {"empty": "null", "long": "x" * 6000} | {f"more.{index}": str(index) for index in range(150)}
    assert run.data.params == expected
    begin(journal, **{"train.max_timesteps": 80, "evaluate.episodes": 4})
    for _ in range(2):  # what has changed stays as it was
        MLflowTracker(URI, "mine").push(tracked_run(folder))
    assert run.data.params == expected | {"evaluate.episodes": "4"}


@pytest.mark.parametrize(
    ("status", "message", "expected"), [("succeeded", "", "FINISHED"), ("failed", "ValueError: no", "FAILED")]
)
def test_a_run_ends_and_goes_on(
    store: Store, folder: Path, journal: Journal, status: str, message: str, expected: str
) -> None:
    tracker, run = MLflowTracker(URI), tracked_run(folder)

    def seen() -> tuple[str, str]:
        run.read()
        tracker.push(run)
        (found,) = runs(store)
        ended = found.info.end_time
        assert ended == (None if found.info.status == "RUNNING" else round(run.statuses[-1].time * 1000))
        return found.info.status, found.data.tags.get("axonrl.message", "")

    assert seen() == ("RUNNING", "")
    journal.status(status, message)
    assert seen() == (expected, message)
    journal.status("resuming")
    assert seen() == ("RUNNING", "")
    tracker = MLflowTracker(URI)  # told of a whole session at once
    for one in ("running", "stopped", "running", status):
        journal.status(one, message)
    assert seen() == (expected, message)
    journal.status("stopped", "by Ctrl-C")
    assert seen() == ("KILLED", "by Ctrl-C")


def test_the_end_comes_after_all_that_came_before_it(
    store: Store, folder: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.write(step=1, metrics={LENGTH: 5.0})
    journal.status("succeeded")
    tracker = MLflowTracker(URI)
    monkeypatch.setattr(tracker, "_push_files", lambda *_: exec("raise OSError('no more')"))
    with pytest.raises(MLflowError, match="no more"):
        tracker.push(tracked_run(folder))
    assert runs(store)[0].info.status == "RUNNING"


def test_outputs_are_metrics_at_the_timestep_of_the_session(store: Store, folder: Path, journal: Journal) -> None:
    tracker, run = MLflowTracker(URI), tracked_run(folder)
    for timesteps, mean in ((40, 9.0), (80, 9.5)):
        journal.write(step=timesteps, metrics={LENGTH: 5.0})
        journal.write(outputs={"timesteps": timesteps, "final_episode_return_mean": mean})
        for _ in range(2):
            run.read()
            tracker.push(run)
        journal.status("succeeded")
        run.read()
        tracker.push(run)
        MLflowTracker(URI).push(run)
        begin(journal)
    assert held(store, "final_episode_return_mean") == [(40, 9.0), (80, 9.5)]
    assert held(store, "timesteps") == [(40, 40.0), (80, 80.0)]


def test_files_and_log_come_along_and_again_when_they_change_only(
    store: Store, folder: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "videos").mkdir()
    for name in ("experiment.yml", "best.safetensors", "videos/one.mp4", "lock"):
        (folder / name).write_text(f"{name} 1")
    journal.write(log="the first line")
    tracker, run = MLflowTracker(URI), tracked_run(folder)
    tracker.push(run)
    kept = {name: f"{name} 1" for name in ("experiment.yml", "best.safetensors", "videos/one.mp4")}
    found = dict(store.files)
    assert found.pop("log.txt").endswith("Z the first line\n")
    assert found == kept
    (folder / "best.safetensors").write_text("better")
    (folder / "learning_curve.png").write_text("a picture")
    journal.write(log="the second line")
    run.read()
    tracker.push(run)
    found = dict(store.files)
    lines = [line.partition(" ")[2] for line in found.pop("log.txt").splitlines()]
    assert lines == ["the first line", "the second line"]
    assert found == kept | {"best.safetensors": "better", "learning_curve.png": "a picture"}
    journal.write(step=1, metrics={LENGTH: 5.0})
    journal.status("succeeded")
    run.read()
    tracker.push(run)
    monkeypatch.setattr(tracker, "_client", None)
    monkeypatch.setattr("axonrl.experiments.tracking.mlflow._connect", lambda _: object())
    tracker.push(run)  # an object can be asked nothing


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of a real one, on a free port."""
    address = f"http://127.0.0.1:{(port := free_port())}"
    where = f"--port {port} --backend-store-uri sqlite:///{tmp_path}/mlflow.db --artifacts-destination {tmp_path}/kept"
    with (tmp_path / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "mlflow", "server", "--workers", "1", *where.split()],
            env=os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def answers() -> bool:
        assert process.poll() is None, (tmp_path / "server.log").read_text()
        with suppress(OSError), urllib.request.urlopen(f"{address}/health", timeout=5):
            return True
        return False

    try:
        wait(answers)
        yield address
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.server
def test_a_real_server_holds_the_run_once(
    server: str,
    folder: Path,
    journal: Journal,
    sent: Sent,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    (folder / "best.safetensors").write_text("the best")
    tracker, run = MLflowTracker(), tracked_run(folder)
    tracker.push(run)
    for step in range(1500):
        journal.write(step=step, metrics={"rollout/return": math.nan if step == 7 else 1.0})
    begin(journal, **{"train.max_timesteps": 80, "long": "x" * 7000})
    journal.write(cut=1400, update=0, episode=0)
    for step in range(1401, 1600):
        journal.write(step=step, metrics={"rollout/return": 1.0})
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: 1_700_000_000.0)
        for _ in range(3):  # episodes that end together
            journal.write(step=1600, metrics={LENGTH: 125.0, "train/td": math.inf, "train/loss (actor)": 1.0})
    journal.write(log="a line")
    journal.write(outputs={"timesteps": 1600, "final_episode_return_mean": 9.0})
    journal.status("succeeded")
    run.read()
    sent.losing = 2
    with pytest.raises(MLflowError, match="the answer was lost"):
        tracker.push(run)
    tracker.push(run)
    MLflowTracker().push(run)
    assert capfd.readouterr() == ("", "")  # what a tracker prints would be taken for a message to the user
    there = MlflowClient(server)
    values = held(there, "rollout/return")
    assert [step for step, _ in values] == [*range(1600)]
    assert held(there, LENGTH) == [(1600, 125.0)] * 3
    assert held(there, "train/td") == [(1600, sys.float_info.max)] * 3  # MLflow's infinity
    assert held(there, "train/loss _actor_") == [(1600, 1.0)] * 3
    assert len(sent.metrics) == 1600 + 2 + 9
    assert [step for step, value in values if math.isnan(value)] == [7]
    assert held(there, "final_episode_return_mean") == [(1600, 9.0)]
    (found,) = runs(there)
    assert found.info.status == "FINISHED"
    assert found.data.params["long"] == "x" * 6000
    kept = there.list_artifacts(found.info.run_id)
    assert sorted(one.path for one in kept) == ["best.safetensors", "log.txt"]


def refusal(uri: str, folder: Path) -> str:
    """The message when a push fails."""
    with pytest.raises(MLflowError) as caught:
        MLflowTracker(uri).push(tracked_run(folder))
    return str(caught.value).replace(uri, "URI")


@pytest.mark.parametrize(
    ("status", "text", "expected"),
    [
        (200, "<html>log in</html>", "is not an MLflow server, by its answers"),
        (
            401,
            "",
            "requires a login: set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD",
        ),
        (403, "", "denies access to the experiment 'axonrl'"),
        (503, "", "answers with error 503"),
    ],
)
def test_a_server_that_refuses(folder: Path, journal: Journal, status: int, text: str, expected: str) -> None:
    with StubServer(status, text.encode()).running() as server:
        assert refusal(server.host, folder) == f"MLflow at URI {expected}"


def test_a_server_that_hangs_is_given_up(folder: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    with StubServer(200) as server:  # which takes connections, and does not look at them
        assert refusal(server.host, folder) == "MLflow at URI does not answer within 1 seconds"


def test_waiting_is_short_and_telemetry_off_unless_the_user_says_otherwise(
    folder: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "false")
    nobody = f"http://127.0.0.1:{free_port()}"
    assert refusal(nobody, folder) == "MLflow at URI cannot be reached: connection refused"
    assert os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "10"
    assert os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] == "0"
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "false"


@pytest.mark.parametrize(
    ("user", "query", "token", "trouble"),
    [
        # requests refuses such a header, and quotes it
        (
            "me:hidden@",
            "",
            "also hidden\n",
            "asked: MLFLOW_TRACKING_TOKEN begins with a space, or contains a line break",
        ),
        ("", "?Token=hidden", "", "reached: connection refused"),
    ],
)
def test_no_message_quotes_a_secret(
    user: str, query: str, token: str, trouble: str, folder: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"{user}127.0.0.1:{free_port()}{query}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://{address}")
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", token)
    with pytest.raises(MLflowError) as caught:
        MLflowTracker().push(tracked_run(folder))
    shown = address.replace("me:hidden", "***").replace("hidden", "***")
    assert str(caught.value) == f"MLflow at http://{shown} cannot be {trouble}"


@pytest.mark.parametrize(
    ("module", "uri", "more"),
    [
        ("mlflow", "sqlite:///mlflow.db", '; pip install "axonrl[mlflow]" installs it'),
        ("psycopg2", "postgresql+psycopg2://host/database", ""),
    ],
)
def test_a_missing_package_is_named(
    module: str, uri: str, more: str, folder: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    assert refusal(uri, folder) == f"MLflow needs the module '{module}', which is not installed{more}"


# -- what an experiment file gives it ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"uri": ""}, "uri must be an address, such as http://localhost:5000, got ''"),
        ({"experiment": ""}, "experiment must be a name, got ''"),
        ({"uri": "https://me:hidden@host"}, "uri must not contain a password"),
        ({"uri": "postgresql://host/db?user=me&password=hidden"}, "uri must not contain a password"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(expected)}") as caught:
        MLflowTracker(**arguments)
    assert "hidden" not in str(caught.value)
