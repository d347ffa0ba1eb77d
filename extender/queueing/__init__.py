"""Decisions about quota: no I/O, no clock.

To read it from top to bottom: `cycle` judges and serves the head of each ClusterQueue, of the
workloads in `pending`; `nominate` judges one head; `flavors` finds flavors
with quota on the tree of `quota`, and `preempt` the victims where there is no quota or no room;
`rules` says who needs room on nodes, and `aging` for whom it is kept.

Apart from quota, `lifecycle` changes a workload's status and decides what becomes of it, over
`readiness`, `status` and `lost_hosts`.
"""
