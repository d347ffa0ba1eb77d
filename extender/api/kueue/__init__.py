"""The queue's API, `kueue.x-k8s.io`: one module per kind of v1beta2, and v1beta1 beside them.

The models are the source of the CRDs and hold the rules that the API server itself enforces. What
is accepted so that manifests apply unchanged, and not honoured, says so in its description.
"""
