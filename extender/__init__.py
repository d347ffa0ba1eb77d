"""All-or-nothing scheduling for the stock kube-scheduler, as an HTTP extender."""
