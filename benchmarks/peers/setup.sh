#!/bin/sh
# Install the peers into environments of their own: setup.sh [DIR]; default $ACCELSIM_PEERS or ~/.cache/accelsim-peers.
set -eu
into=${1:-${ACCELSIM_PEERS:-$HOME/.cache/accelsim-peers}}

install() { # NAME PYTHON_VERSION PACKAGE...
    name=$1 version=$2
    shift 2
    for python in "python$version" "$HOME/.pyenv/versions/$version".*/bin/python; do
        "$python" -c '' 2>/dev/null && "$python" -m venv "$into/$name" && break
    done
    test -x "$into/$name/bin/python" || { echo "Python $version is missing; $name needs it" >&2; exit 1; }
    "$into/$name/bin/python" -m pip install -qq --disable-pip-version-check "$@"
}

install accelforge 3.12 accelforge==1.0.467
install zigzag 3.11 zigzag-dse==3.9.1 six # which it imports without asking for it
echo "peers are in $into"
