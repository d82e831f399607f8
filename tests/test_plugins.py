"""Commands of packages on top of Regard: listed without an import, found when they are typed."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys

import pytest
import typer

from regard.cli.commands import app
from regard.cli.plugins import PLUGINS
from regard.runtime.lazy import imported
from tests.commands import is_refused


@pytest.mark.parametrize("name", PLUGINS)
def test_a_plugin_is_a_command_with_the_first_line_of_its_function(name):
    path, line = PLUGINS[name]
    assert inspect.getdoc(imported(path)).splitlines()[0] == line
    known = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert known[name].help == line


@pytest.mark.parametrize("name", PLUGINS)
def test_its_help_has_its_own_options(name, regard):
    result = regard(name, "--help")
    assert result.code == 0
    assert f"regard {name} [OPTIONS]" in result.out
    assert "--threads" in result.out
    is_refused(regard(name, "--no-such-option"), "--no-such-option")


def test_help_and_import_leave_the_lectures_alone():
    code = (
        "import sys; sys.argv=['regard', '--help']\n"
        "import regard\nfrom regard import cli\n"
        "try: cli.main()\n"
        "except SystemExit: pass\n"
        "assert 'regard_lectures' not in sys.modules"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    for name in PLUGINS:
        assert f"\n  {name} " in ran.stdout


@pytest.mark.parametrize(("old", "new"), [("atlas", "regard_lectures"), ("bench", "benchmarks")])
def test_what_has_moved_says_where_it_is(old, new):
    with pytest.raises(ImportError, match=new):
        importlib.import_module(f"regard.{old}.anything")
