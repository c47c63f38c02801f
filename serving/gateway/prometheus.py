"""Metrics in Prometheus' text format. Names of users or agents are never labels."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

BOUNDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Bounds of the histogram, in seconds."""

Gauges = Callable[[], Mapping[str, float]]


class Meters(Collector):
    """Counts requests in plain dictionaries: prometheus-client's own counters lock, and cost several microseconds.

    Args:
        gauges: returns the workers' values by metric name, when the metrics are read.
    """

    def __init__(self, gauges: Gauges | None = None) -> None:
        self._requests: dict[tuple[str, int], int] = {}
        self._histograms: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}
        self._counts: dict[str, int] = {"database_errors": 0, "audit_failures": 0, "refused_connections": 0}
        self._gauges = gauges
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """Count a request.

        Args:
            route: the route's path, not the request's.
            status: status of the answer.
            seconds: duration.
        """
        key = (route, status)
        self._requests[key] = self._requests.get(key, 0) + 1
        buckets = self._histograms.get(route)
        if buckets is None:
            self._seconds[route] = 0.0
            buckets = self._histograms[route] = [0] * (len(BOUNDS) + 1)
        buckets[bisect.bisect_left(BOUNDS, seconds)] += 1
        self._seconds[route] += seconds

    def count(self, name: str) -> None:
        """Count an event: ``database_errors``, ``audit_failures``, ``refused_connections``."""
        self._counts[name] += 1

    def collect(self) -> Iterator[Metric]:
        """Metrics for the registry; in another thread than requests are counted in."""
        requests = CounterMetricFamily("axonrl_requests", "Requests.", labels=["route", "status"])
        for (route, status), count in list(self._requests.items()):
            requests.add_metric([route, str(status)], count)
        yield requests
        latency = HistogramMetricFamily("axonrl_request_seconds", "Time to answer.", labels=["route"])
        for route, buckets in list(self._histograms.items()):
            total, cumulative = 0, []
            for bound, count in zip((*map(str, BOUNDS), "+Inf"), buckets, strict=True):
                total += count
                cumulative.append((bound, total))
            latency.add_metric([route], cumulative, self._seconds[route])
        yield latency
        for name, count in self._counts.items():
            yield CounterMetricFamily(f"axonrl_{name}", name.replace("_", " ").capitalize() + ".", value=count)
        for name, value in (self._gauges() if self._gauges is not None else {}).items():
            family = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            about = name.removesuffix("_total").replace("_", " ").capitalize() + "."
            yield family(f"axonrl_{name.removesuffix('_total')}", about, value=value)

    def text(self) -> bytes:
        """All metrics as text."""
        return generate_latest(self._registry)
