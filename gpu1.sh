python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade --target /tmp/site .whl/*.whl || exit 1
export PYTHONPATH=$PWD:/tmp/site PATH=/tmp/site/bin:$PATH TORCHINDUCTOR_COMPILE_THREADS=1 OMP_NUM_THREADS=1
timeout 560 python3 -m pytest -q -n 16 --dist worksteal tests --deselect tests/test_cuda.py --tb=short -rfs --durations 5 > $OUT/tests.txt 2>&1
tail -c 11000 $OUT/tests.txt
