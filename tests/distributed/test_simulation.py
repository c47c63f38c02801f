"""The simulation against what follows from its costs by arithmetic."""

import pytest

from axonrl.distributed import Cluster
from axonrl.distributed.simulation import Simulation
from axonrl.distributed.simulation_plan import Costs, Plan


def test_actors_that_are_the_limit_are_busy_all_the_time() -> None:
    """Four actors of 8 environments, 0.1 ms for each timestep: 40,000 timesteps/s."""
    plan = Plan(cluster=Cluster(actors=4, unroll=10, envs_per_actor=8), batch=4)
    found = Simulation(plan, Costs(timestep_s=1e-4, update_s=1e-4, noise=0.0), 50.0).run()
    assert found.timesteps_per_s == pytest.approx(40_000, rel=0.01)
    assert found.actors_busy == pytest.approx(1, abs=0.01)
    assert found.updates_per_s == pytest.approx(125, rel=0.01)
    assert found.learner_busy == pytest.approx(0.0125, abs=0.001)


def test_a_learner_that_is_the_limit_holds_actors_up() -> None:
    """An update of 10 ms for each 80 timesteps: 8,000/s; what waits is bounded, and so is the lag."""
    plan = Plan(cluster=Cluster(actors=4, unroll=10, envs_per_actor=8, queue=4), batch=1)
    found = Simulation(plan, Costs(timestep_s=1e-5, update_s=10e-3, driver_s=0.0), 50.0).run()
    assert found.timesteps_per_s == pytest.approx(8_000, rel=0.01)
    assert found.learner_busy == pytest.approx(1, abs=0.01)
    assert found.waiting_most <= 9  # of 4 actors with 2 in flight each, and a batch
    assert found.lag_most <= 8
    assert found.actors_busy < 0.1


def test_replay_learns_as_often_as_its_schedule_says() -> None:
    cluster = Cluster(actors=2, unroll=25, envs_per_actor=8)
    plan = Plan(cluster=cluster, batch=None, update_frequency=8, batch_size=64)
    found = Simulation(plan, Costs(timestep_s=1e-4, update_s=1e-4), 50.0).run()
    assert found.samples_per_insert == pytest.approx(8, rel=0.01)
    assert found.updates_per_s == pytest.approx(found.timesteps_per_s / 8, rel=0.01)


def test_a_lost_node_comes_back_after_the_delay_and_the_start() -> None:
    """One second until the next incarnation, two to start it, and the driver looks once in a second."""
    cluster = Cluster(actors=40, unroll=10, envs_per_actor=8)
    plan = Plan(cluster=cluster, batch=8, nodes=4)
    found = Simulation(plan, Costs(timestep_s=1e-4), 60.0, lose_node_at=30.0).run()
    assert found.deaths == 10
    assert found.recovery_s is not None
    assert 3.0 <= found.recovery_s <= 4.1
