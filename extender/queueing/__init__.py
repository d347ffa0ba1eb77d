"""Decisions about quota: no I/O, no clock.

To read it from top to bottom: `admission` begins cycles over the workloads in `pending`; `cycle`
judges and serves the head of each ClusterQueue; `nominate` judges one head; `flavors` finds flavors
with quota on the tree of `quota`, and `preempt` the victims where there is no quota or no room;
`rules` says who needs room on nodes, and `aging` for whom it is kept.

Apart from quota, `lifecycle` decides what becomes of a workload, over `readiness`, `status`,
`lost_hosts` and the `transitions` of its conditions.
"""
