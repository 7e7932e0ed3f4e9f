"""The documentation as a site: `make docs` builds it into build/docs.

Pages lie where they are read on GitHub too: Markdown in docs/, README and changelog at the top, notebooks for Jupyter.
What is made when the site is built stands in docs/site/: the contents from index.md, the commands from their parsers,
the keys of input files from their schemas, the Python API from its docstrings, the notebooks with their outputs.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from numpydoc.xref import DEFAULT_LINKS

import accelsim
from docs.site.python import PARTS

project = "accelsim"
author = "The accelsim authors"
copyright = author
version = release = accelsim.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "numpydoc",
    "docs.site.contents",
    "docs.site.python",
    "docs.site.notebooks",
    "docs.site.pages",
]
root_doc = "docs/index"
include_patterns = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "docs/*.md",
    "docs/papers/*.md",
    "docs/reference/*.md",
    "notebooks/*.ipynb",
]
source_suffix = {".md": "markdown", ".ipynb": "markdown"}
nitpicky = True
highlight_language = "text"

myst_heading_anchors = 4
myst_enable_extensions = ["deflist", "colon_fence"]
myst_links_external_new_tab = False

default_role = "literal"
autodoc_typehints = "none"
autodoc_preserve_defaults = True
add_module_names = False
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = True
DEFAULT_LINKS.clear()  # Python's own types are on another site
numpydoc_xref_ignore = "all"
numpydoc_xref_aliases = {
    name: f"{module}.{name}"
    for parts in PARTS.values()
    for module, names in parts.items()
    for name in names
    if name[0].isupper()
}
toc_object_entries = False

html_theme = "furo"
html_title = f"accelsim {version}"
html_static_path = ["site/static"]
html_css_files = ["accelsim.css"]
html_show_sourcelink = False
html_copy_source = False
html_last_updated_fmt = None
pygments_style = "friendly"
pygments_dark_style = "github-dark"
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#0072B2",
        "color-brand-content": "#0072B2",
    },
    "dark_css_variables": {
        "color-brand-primary": "#56B4E9",
        "color-brand-content": "#56B4E9",
    },
}
