# Sourced by ./judge and ./check: a virtual environment in $OPTIMUS_VENV (default .venv) with everything installed.
VENV="${OPTIMUS_VENV:-.venv}"
if [ ! -e "$VENV/ready" ] || [ pyproject.toml -nt "$VENV/ready" ] || [ constraints.txt -nt "$VENV/ready" ]; then
    [ -x "$VENV/bin/python" ] || "${PYTHON:-python3}" -m venv "$VENV"
    # First PyTorch as pinned, so that nothing that needs it pulls in another build.
    "$VENV/bin/python" -m pip install --quiet -c constraints.txt torch
    "$VENV/bin/python" -m pip install --quiet -c constraints.txt --editable '.[models,dev]'
    touch "$VENV/ready"
fi
