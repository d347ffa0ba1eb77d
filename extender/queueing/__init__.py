"""Decisions about quota: no I/O, no clock.

To read it from top to bottom: `cycle` begins cycles over the workloads in `pending`, and judges and
serves the head of each ClusterQueue; `nominate` judges one head; `flavors` finds flavors with quota
on the tree of `quota`, and `preempt` the victims where there is no quota or no room; `rules` says
who needs room on nodes and how long pods may take to be ready, and `aging` for whom room is kept.

Apart from quota, `lifecycle` changes a workload's status and decides what becomes of it, over
`rules`, `status` and `lost_hosts`.
"""
