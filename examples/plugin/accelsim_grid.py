"""An importer, an estimator and an exporter for a small tool that describes grids of compute units."""

from pathlib import Path


class Importer:
    """Reads `grid 8 x 8, 512 B each` and `product 64 x 64 x 64`, a line each."""

    @staticmethod
    def recognizes(path, text):
        """Whether a file is of the tool."""
        return text.startswith(("grid ", "product "))

    @staticmethod
    def convert(paths):
        """Documents of accelsim, each as it stands below its key."""
        found = {"energies": "grid"}
        for line in "".join(Path(path).read_text() for path in paths).splitlines():
            kind, *words = line.replace(",", "").split()
            if kind == "grid":
                buffer = {"name": "BUF", "class": "scratchpad", "size": f"{words[3]} B", "word": "8 bit"}
                buffer["fanout"] = {"x": int(words[0]), "y": int(words[2])}
                levels = [{"name": "DRAM", "class": "dram", "word": "8 bit"}, buffer]
                machine = {"name": "grid", "technology": "7 nm", "clock": "1 GHz", "energy_table": "grid"}
                found["architecture"] = {**machine, "levels": levels, "compute": {"class": "mac"}}
            elif kind == "product":
                found["workload"] = {"name": "product", "gemm": dict(zip("MNK", map(int, words[::2]), strict=True))}
            else:
                found.setdefault("notes", []).append(f"'{line}' is left out")
        return found


def estimate(component):
    """Energies [pJ] of the actions of a component, and its area [um2]."""
    known = {"dram": {"read": 100, "write": 100}, "scratchpad": {"read": 1, "write": 1}, "mac": {"compute": 0.2}}
    return {"update": known[component.component].get("write", 0), **known[component.component], "area": 100}


def export(architecture, layer, mapping):
    """The files of a mapping: text by name."""
    loops = [f"{level.level} {loop.dim} {loop.bound}" for level in mapping.levels for loop in level.temporal]
    return {"loops.txt": "\n".join([architecture.name, layer.name, *loops, ""])}
