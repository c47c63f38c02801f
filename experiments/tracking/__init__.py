"""Tracking: what a run does, written down as it happens, and brought to trackers by a process of its own.

The training process appends lines to the journal in the run folder and does nothing else (:mod:`.journal`). Another
process follows the journal (:mod:`.follower`): it keeps a Polyaxon run in the run folder up to date (:mod:`.offline`)
and has every tracker hold what the run holds (:mod:`.server` for a Polyaxon server). A tracker that hangs, fails or
cannot be reached thus costs the training nothing; and because a tracker is told what there is, not what is new, it can
be told again: nothing is lost and nothing comes twice. ``axonrl sync`` tells it later (:mod:`.commands`).
"""
