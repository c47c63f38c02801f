"""What must be the same in another process, signals to one, and the number of threads before TensorFlow begins."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zlib
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from axonrl import Agent
from axonrl.core.protocols import ArraySpec, RunConfig, SpecTree
from axonrl.memories import ReplayMemory
from axonrl.runtimes.tensorflow import TensorFlowExecutor, _has_one_thread
from axonrl.runtimes.tracing.program import Program
from axonrl.runtimes.tracing.signature import BoundModelFn
from axonrl.tests.runtimes.networks import network
from axonrl.tests.runtimes.test_choosing import key_of


def described() -> dict[str, Any]:
    """The initial weights of a network, and the key of its conversion."""
    program = Program(BoundModelFn(network, None, RunConfig(), None), ArraySpec((4,), np.float32), 0)
    specs: dict[str, SpecTree] = dict.fromkeys(("reward", "discount"), ArraySpec((6,), np.float32))
    specs |= {"action": ArraySpec((6,), np.int32), "observation": ArraySpec((6, 4), np.float32)}
    train = program.trace_train(specs)
    weights = TensorFlowExecutor(program).get_weights()
    checksums = [[name, zlib.crc32(value.tobytes())] for name, value in weights.items()]
    return {"weights": checksums, "key": key_of((program, train))}


def threads() -> list[bool]:
    """Is there one thread? By the environment alone (inside of ops, between them), then by what is configured."""
    set_threads = (
        tf.config.threading.set_intra_op_parallelism_threads,
        tf.config.threading.set_inter_op_parallelism_threads,
    )
    found = []
    for given, configured in (("1", "1"), (0, 0)), (("1", "2"), (0, 0)), (("2", "1"), (1, 0)):
        os.environ["TF_NUM_INTRAOP_THREADS"], os.environ["TF_NUM_INTEROP_THREADS"] = given
        for values in (0, 0), configured:
            for set_number, number in zip(set_threads, values, strict=True):
                set_number(number)
            found.append(_has_one_thread())
    return found


def child() -> None:
    """What the other process says."""
    found = threads()
    keras.layers.Dense(1), keras.Sequential(), keras.optimizers.Adam()  # Keras numbers the next ones higher
    made = described()
    loaded = [name for name in ("matplotlib.pyplot", "sklearn") if name in sys.modules]
    loads = [keras.visualization.plot_image_gallery.__name__, keras.wrappers.SKLearnClassifier.__name__]
    print(json.dumps({"threads": found, "loaded": loaded, "loads": loads, **made}))


def train_among_signals() -> None:
    """Train, without signals and with one every 0.2 ms; what differs and how many signals arrived."""
    received: list[int] = []
    signal.signal(signal.SIGALRM, lambda number, _: received.append(number))
    made = []
    for interval in (0.0, 2e-4):
        memory = ReplayMemory(1000, batch_size=256)
        config = RunConfig(seed=0, runtime="tensorflow")
        agent = Agent("dqn", memory, params={"hidden": [256, 256]}, config=config)
        agent.train("CartPole-v1", first_update=256, max_steps=1)
        signal.setitimer(signal.ITIMER_REAL, interval, interval)
        agent.train("CartPole-v1", max_steps=300)
        signal.setitimer(signal.ITIMER_REAL, 0)
        made.append(agent.get_weights())
    differing = [name for name, value in made[0].items() if not np.array_equal(value, made[1][name])]
    print(json.dumps({"differing": differing, "signals": len(received)}))


@pytest.fixture(scope="module")
def there() -> dict[str, Any]:
    loading = "from axonrl.core.tensorflow_import import load_tensorflow; load_tensorflow()"
    code = f"{loading}; from {__name__} import child; child()"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_number_of_threads_is_found(there: Any) -> None:
    assert there["threads"] == [True, True, False, False, False, True]


def test_what_no_trace_uses_of_keras_is_loaded_on_use(there: Any) -> None:
    assert (there["loaded"], there["loads"]) == ([], ["plot_image_gallery", "SKLearnClassifier"])


def test_names_initial_weights_and_keys_are_the_same_in_a_second_trace_and_in_another_process(there: Any) -> None:
    here = described()
    assert here == described()
    assert (there["weights"], there["key"]) == (here["weights"], here["key"])
    assert len(dict(here["weights"])) == 14


def test_signals_during_updates_change_nothing() -> None:
    # On one thread, the main thread, updates are matrix products of oneDNN.
    code = f"from {__name__} import train_among_signals; train_among_signals()"
    one = {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}
    command, env = [sys.executable, "-c", code], {**os.environ, **one}
    done = subprocess.run(command, env=env, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["differing"] == []
    assert found["signals"] > 100
