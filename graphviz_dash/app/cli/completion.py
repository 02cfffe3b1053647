"""``graphviz-dash completion``: shell completion script."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from graphviz_dash.errors import MissingRequirementError

_PROGRAM = "graphviz-dash"
_VARIABLE = "_GRAPHVIZ_DASH_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "fish", "zsh"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of a SHELL.

    \b
    bash: graphviz-dash completion bash > ~/.graphviz-dash.bash
          echo '. ~/.graphviz-dash.bash' >> ~/.bashrc
    zsh:  graphviz-dash completion zsh > ~/.graphviz-dash.zsh
          echo '. ~/.graphviz-dash.zsh' >> ~/.zshrc
    fish: graphviz-dash completion fish \\
              > ~/.config/fish/completions/graphviz-dash.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise MissingRequirementError(f"This version of click does not support {shell}")
    click.echo(kind(context.find_root().command, {}, _PROGRAM, _VARIABLE).source())
