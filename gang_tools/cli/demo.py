"""`gang-extender demo`: gangs being scheduled on a real control plane that it starts itself."""

from typing import Annotated

import typer

from gang_tools.cli.options import fail


def demo(
    *,
    playground: Annotated[
        bool,
        typer.Option(
            "--playground",
            help="Play nothing: make four nodes, print how to reach the control plane, and keep it "
            "up until Ctrl-C.",
        ),
    ] = False,
    page: Annotated[
        bool,
        typer.Option(
            "--page",
            help="Also show it in a browser, at an address that is printed: gang-extender page. "
            "The end of the story stays up until Ctrl-C.",
        ),
    ] = False,
) -> None:
    """Show gangs and queued jobs, on a real control plane with simulated kubelets.

    Starts etcd, kube-apiserver, kube-controller-manager, the stock kube-scheduler,
    the extender and the reconciler on free ports of 127.0.0.1, plays seven scenes,
    checks the result of each, and leaves nothing behind. kubectl is not needed. It
    runs from a source checkout: make demo. The first run downloads the binaries, or
    builds them, which takes 7 to 9 minutes.

    Exit codes: 0 all as expected, 1 not as expected, 130 Ctrl-C in the story.
    """
    try:
        from tests.harness.demo import story  # not in the wheel
    except ModuleNotFoundError as error:
        fail(f"{error}. The demo runs from a source checkout: make demo", 1)
    raise typer.Exit(story.run(playground=playground, page=page))
