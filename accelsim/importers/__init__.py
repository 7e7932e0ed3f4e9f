"""Files of other tools, found by their ending through `accelsim.inputs.library`."""
