"""Seeds: every stream is another one, and stays the one that it is."""

import numpy as np

from axonrl.core.initializers import model_seed
from axonrl.run_dir.generators import GENERATORS, draw_seed, episode_seed, evaluation_seed, generators


def test_the_seeds_never_change_or_old_runs_would_not_resume() -> None:
    assert episode_seed(3, 0, 0) == 1223157464
    assert episode_seed(3, 1, 1) == 744134940
    assert evaluation_seed(3, 0, 0) == 1305673099
    assert evaluation_seed(3, 1, 0) == 1667266619
    assert model_seed(3) == 59274554
    for entropy in (0, 2**32, 2**63 - 1, 2**130):  # as NumPy puts them together
        sequence = np.random.SeedSequence(entropy, spawn_key=(0, 5, 2**33))
        assert episode_seed(entropy, 5, 2**33) == int(sequence.generate_state(1)[0]) >> 1
    drawn = {name: int(rng.integers(0, 1000)) for name, rng in generators(3).items()}
    assert drawn == {"exploration": 724, "memory": 458, "noise": 943}
    assert tuple(drawn) == GENERATORS


def test_every_stream_is_another_one() -> None:
    episodes = [episode_seed(run, i, k) for run in (0, 1, 2**63 - 1) for i in range(4) for k in range(25)]
    evaluations = [evaluation_seed(0, stream, k) for stream in (0, 1) for k in range(50)]
    seeds = [*episodes, *evaluations, model_seed(0), model_seed(1)]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**31 for seed in seeds)  # what every environment takes
    assert len({draw_seed() for _ in range(20)}) == 20
