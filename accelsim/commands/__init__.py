"""What each command does with its arguments: read the files, call the library, print."""

from accelsim.commands.caching import cache_command
from accelsim.commands.evaluating import eval_command, explain_command
from accelsim.commands.exploring import explore_command
from accelsim.commands.fusing import fuse_command
from accelsim.commands.gpu_advice import gpu_advise_command, gpu_compare_command
from accelsim.commands.gpus import calibrate_command, gpus_command
from accelsim.commands.importing import import_command
from accelsim.commands.inspecting import (
    check_command,
    energy_command,
    list_command,
    schema_command,
)
from accelsim.commands.mapping import map_command
from accelsim.commands.plotting import plot_command
from accelsim.commands.rooflining import roofline_command
from accelsim.commands.spreading import spread_command
from accelsim.commands.validating import validate_command
from accelsim.commands.verifying import verify_command

__all__ = [
    "cache_command",
    "calibrate_command",
    "check_command",
    "energy_command",
    "eval_command",
    "explain_command",
    "explore_command",
    "fuse_command",
    "gpu_advise_command",
    "gpu_compare_command",
    "gpus_command",
    "import_command",
    "list_command",
    "map_command",
    "plot_command",
    "roofline_command",
    "schema_command",
    "spread_command",
    "validate_command",
    "verify_command",
]
