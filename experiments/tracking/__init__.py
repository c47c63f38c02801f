"""Tracking: a run is recorded while it happens, and another process keeps trackers up to date.

The training process appends lines to the journal in the run folder and does nothing else (:mod:`.producer`,
:mod:`.journal`). Another process follows the journal (:mod:`.follower`): it writes the trackers' files in the run
folder and pushes the whole run to every tracker, which is found by name (:mod:`.trackers`). A tracker that hangs or
fails does not slow down the training; and because it gets the whole run, a push can be repeated: nothing is lost or
duplicated.
"""
