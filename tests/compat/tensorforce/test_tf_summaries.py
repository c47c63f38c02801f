import io
import wave
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util.tensor_util import make_ndarray

from .agents import S, make, refused

CUSTOM = dict(
    score=dict(type="scalar"),
    spread=dict(type="histogram", buckets=2),
    view=dict(type="image", max_outputs=2),
    sound=dict(type="audio", sample_rate=8000),
)


def learner(summarizer: Any, **kwargs: Any) -> Any:
    return make("vpg", summarizer=summarizer, batch_size=1, network=[dict(type="dense", size=4)], **kwargs)


def play(agent: Any, episodes: int, length: int = 2) -> list[int]:
    """Episodes with the rewards 1, 2, ...; the actions."""
    actions = []
    for _ in range(episodes):
        for t in range(length):
            actions.append(int(agent.act(S)))
            agent.observe(float(t + 1), t == length - 1)
    return actions


def events(folder: Path) -> Any:
    newest = max(folder.iterdir())
    return EventAccumulator(str(newest), size_guidance=dict(scalars=0, tensors=0, images=0, audio=0)).Reload()


def scalars(folder: Path, tag: str) -> list[tuple[int, float]]:
    return [(event.step, event.value) for event in events(folder).Scalars(tag)]


def test_a_summary_of_the_users_own(tmp_path: Path) -> None:
    settings = dict(directory=str(tmp_path / "new"), custom=CUSTOM)
    with pytest.warns(UserWarning, match="relu, lossess") as warned:  # of labels that are never recorded
        agent = make(summarizer=dict(settings, labels=["graph", "relu", "lossess"]))
    assert len(warned) == 1
    assert refused(make, summarizer=dict(labels="all")).argument == "RandomAgent: summarizer['directory']"
    agent.summarize("score", 1.5, step=3)
    play(agent, 1)
    agent.summarize(summary="score", value=np.float32(2.5))
    assert scalars(tmp_path / "new", "score") == [(3, 1.5), (2, 2.5)]  # before it is closed
    assert events(tmp_path / "new").Tags()["scalars"] == ["score"]  # no label was asked for
    error = refused(agent.summarize, "scores", 1.0)
    assert (error.argument, error.value) == ("summary", "scores")
    assert "'score'" in str(error)
    for summary, value in (("score", [1.0]), ("view", np.zeros((1, 2, 2, 5)))):
        assert refused(agent.summarize, summary, value).argument == "Agent.summarize: value"


def test_histogram_image_and_audio(tmp_path: Path) -> None:
    agent = make(summarizer=dict(directory=tmp_path, custom=CUSTOM))
    agent.summarize("spread", [0.0, 1.0, 1.0, np.nan, 2.0])
    pixels = np.arange(3 * 2 * 2 * 3, dtype=np.uint8).reshape(3, 2, 2, 3)
    agent.summarize("view", pixels)
    agent.summarize("view", np.array([[[[0.0], [0.5], [2.0]]]]), step=1)
    agent.summarize("sound", np.array([[[0.0, 1.0], [-2.0, 0.5]]]))
    agent.close()
    found = events(tmp_path)
    (spread,) = found.Tensors("spread")
    assert make_ndarray(spread.tensor_proto).tolist() == [[0.0, 1.0, 1.0], [1.0, 2.0, 3.0]]
    for number in (0, 1):
        (image,) = found.Images(f"view/{number}")
        shown = matplotlib.image.imread(io.BytesIO(image.encoded_image_string), format="png")
        assert np.rint(shown * 255).tolist() == pixels[number].tolist()
    (grey,) = found.Images("view")
    assert (grey.step, grey.height, grey.width) == (1, 1, 3)
    shown = matplotlib.image.imread(io.BytesIO(grey.encoded_image_string), format="png")
    assert np.rint(shown * 255).tolist() == [[0, 128, 255]]
    (sound,) = found.Audio("sound")
    assert (sound.sample_rate, sound.length_frames, sound.content_type) == (8000, 2, "audio/wav")
    with wave.open(io.BytesIO(sound.encoded_audio_string)) as file:
        assert (file.getnchannels(), file.getframerate()) == (2, 8000)
        assert np.frombuffer(file.readframes(2), "<i2").tolist() == [0, 32767, -32767, 16384]
    assert sorted(found.Tags()["images"]) == ["view", "view/0", "view/1"]


def test_the_newest_folders_stay(tmp_path: Path) -> None:
    for name in ("summary-20200101-000000", "summary-20210101-000000", "summary-mine", "other"):
        (tmp_path / name).mkdir()
    for _ in range(3):
        make(summarizer={"directory": tmp_path, "max-summaries": 2}).close()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert (names[0], names[-1], len(names)) == ("other", "summary-mine", 4)
    assert not any(name.startswith("summary-202001") or name.startswith("summary-2021") for name in names)


@pytest.mark.usefixtures("unconverted")
def test_acts_are_counted_on_from_a_restored_counter(tmp_path: Path) -> None:
    agent = learner(dict(directory=tmp_path, labels=["parameters"], frequency=dict(act=4)), exploration=0.25)
    agent.assign_variable("global-timestep", 6)
    play(agent, 1, length=7)
    agent.close()
    assert scalars(tmp_path, "parameters/action-exploration") == [(8, 0.25), (12, 0.25)]


@pytest.mark.usefixtures("unconverted")
def test_an_agent_that_learns_writes_what_it_measured(tmp_path: Path) -> None:
    labels = ["losses", "entropy", "update-norm", "updates", "variables", "parameters", "categorical", "rewards"]
    summarizer = dict(directory=tmp_path, labels=[*labels, "variables-histogram"], frequency=2)
    reward = dict(reward=dict(type="clipping", upper=1.5))
    agent = learner(summarizer, exploration=0.25, preprocessing=reward, discount=0.5)
    play(agent, 1)
    loss = agent.update(query="loss")
    name = next(name for name in agent.get_variables() if name.endswith("logits/bias"))
    before = agent.get_variable(name)
    play(agent, 1)
    change = agent.get_variable(name) - before
    mean, total = float(agent.get_variable(name).mean()), agent.updates
    learning: Any = agent.learning
    facts = learning.facts
    agent.close()
    assert total == 3
    assert scalars(tmp_path, "losses/loss")[1:] == [(2, loss), (3, facts.loss)]
    assert scalars(tmp_path, "entropies/entropy")[2] == (3, facts.metrics["entropy"])
    assert scalars(tmp_path, "update-norm")[2] == (3, facts.metrics["update_norm"])
    (tag,) = [
        tag
        for tag in events(tmp_path).Tags()["scalars"]
        if tag.startswith("updates/") and "bias/mean" in tag and "logits" in tag
    ]
    assert tag == "updates/policy/action-distribution/logits/bias/mean"
    assert scalars(tmp_path, tag)[2] == pytest.approx((3, change.mean()), abs=1e-7)
    assert scalars(tmp_path, tag.replace("updates", "variables"))[2] == pytest.approx((3, mean), abs=1e-7)
    assert scalars(tmp_path, "parameters/reward_estimation/discount") == [(1, 0.5), (2, 0.5), (3, 0.5)]
    assert scalars(tmp_path, "parameters/action-exploration") == [(2, 0.25), (4, 0.25)]
    parts = [scalars(tmp_path, f"distributions/action-distribution-probabilities/{k}") for k in range(3)]
    assert [step for step, _ in parts[0]] == [2, 4]
    assert sum(part[0][1] for part in parts) == pytest.approx(1)
    assert scalars(tmp_path, "rewards/timestep-reward") == [(1, 1.0), (2, 1.5), (3, 1.0), (4, 1.5)]
    assert scalars(tmp_path, "rewards/raw-reward") == [(1, 1.0), (2, 2.0), (3, 1.0), (4, 2.0)]
    sums = [(k, (1 + 0.5 * 1.5 + 1.5) / 2) for k in (1, 2, 3)]  # of clipped rewards
    assert scalars(tmp_path, "rewards/empirical-reward") == scalars(tmp_path, "rewards/estimated-reward") == sums
    assert "variables-histogram/policy/action-distribution/logits/bias" in events(tmp_path).Tags()["tensors"]
    assert not any("optimizer" in tag for tag in events(tmp_path).Tags()["scalars"] if tag.startswith("variables"))


@pytest.mark.usefixtures("unconverted")
def test_a_summarizer_changes_nothing_and_agents_say_what_they_can_record(tmp_path: Path) -> None:
    drawn = dict(type="random", distribution="uniform", minval=0.1, maxval=0.2)
    found = []
    for summarizer in (None, dict(directory=tmp_path, labels="all", frequency=dict(update=2, variables=3))):
        agent = learner(summarizer, exploration=drawn, learning_rate=drawn, discount=drawn)
        own = agent.get_available_summaries()
        assert {"categorical", "distributions", "losses", "loss", "entropy", "updates-histogram"} <= set(own)
        assert own == sorted(own)
        assert not {"gaussian", "beta", "bernoulli", "baseline-loss"} & set(own)
        actions = play(agent, 3, length=5)
        found.append((actions, {name: agent.get_variable(name).tolist() for name in agent.get_variables()}))
    assert found[0] == found[1]
    agent.close()
    assert [step for step, _ in scalars(tmp_path, "losses/loss")] == [2]  # of three updates
    tag = "policy/policy-network/dense0/bias/variance"
    assert [step for step, _ in scalars(tmp_path, f"updates/{tag}")] == [2]
    assert [step for step, _ in scalars(tmp_path, f"variables/{tag}")] == [3]
