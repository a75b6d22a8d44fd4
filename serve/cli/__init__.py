"""The command `recall-serve`. Exit codes: 0 done, 1 failed, 2 a mistake in the call or the configuration."""

from __future__ import annotations

import click

from serve.cli.config import config
from serve.cli.database import database
from serve.cli.doctor import doctor
from serve.cli.keys import keys
from serve.cli.memory import memory
from serve.cli.up import up


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="recall-serve")
def main() -> None:
    """Memory and tools for the language models you run yourself."""


for command in (up, config, database, doctor, keys, memory):
    main.add_command(command)
