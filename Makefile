# Thin targets over cargo. `make test` is what CI runs.
.PHONY: run life picture test test-all lint fmt generate bench

CARGO ?= cargo

run: ## The quickstart for real: one master and two workers on this machine (needs python3).
	$(CARGO) run --quiet --package trainyard-cli -- run examples/quickstart/pytorchjob.yaml

life: ## A job from create to Succeeded in virtual time: real operator, in-process API server, scripted kubelet.
	$(CARGO) run --quiet --package trainyard-testkit --example life

test: lint ## Everything that has to pass before a change lands, and the size of the house.
	$(CARGO) test --workspace
	python3 -m unittest discover --start-directory examples/quickstart/tests
	$(CARGO) xtask tidy

test-all: test ## Adds the long ones: the large frameworks, other worlds, other requests to both API servers, millions of states, a million specs, more chaos, a hundred kills, a real node (needs root and containerd), and everything again under the published upstream CRDs (needs Go).
	TRAINYARD_SEED=random $(CARGO) test --package trainyard-core --test it properties
	TRAINYARD_SEED=random $(CARGO) test --package trainyard-core --test it nets
	TRAINYARD_SEARCH_FAULTS=2 $(CARGO) test --release --package trainyard-core --test it search -- --nocapture
	TRAINYARD_SEED=random TRAINYARD_SPECS=1000000 $(CARGO) test --release --package trainyard-core --test it specs
	TRAINYARD_SEED=random TRAINYARD_BESIDE_RUNS=2000 $(CARGO) test --package trainyard-apiserver --test contract random -- --nocapture
	$(CARGO) test --package trainyard-cli --test examples -- --ignored --nocapture
	TRAINYARD_KILL_ROUNDS=100 $(CARGO) test --package trainyard-cli --test one_machine kill -- --nocapture
	TRAINYARD_CHAOS_RUNS=5000 $(CARGO) test --release --package trainyard-testkit chaos
	dir=$$(mktemp -d) && cd $$dir && go mod init upstream && \
	  crds=$$(go mod download -json github.com/kubeflow/training-operator@v1.9.4 | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')/manifests/base/crds && \
	  test -f $$crds/kubeflow.org_tfjobs.yaml && cd $(CURDIR) && \
	  TRAINYARD_UPSTREAM_CRDS=$$crds $(CARGO) test --release --package trainyard-testkit
	TRAINYARD_NODE=1 $(CARGO) test --package trainyard-cluster --package trainyard-cli --test it --test judges node -- --nocapture
	$(CARGO) xtask fuzz --seconds 3600
	$(CARGO) bench --package trainyard-cli --bench servers
	$(CARGO) bench --package trainyard-testkit

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- --deny warnings

fmt:
	$(CARGO) fmt --all

generate: ## CRDs and the field reference, from the types. (`cargo xtask generate wire`: the tables of built-in types; needs Go.)
	$(CARGO) xtask generate

bench: ## The figures of docs/performance.md.
	$(CARGO) bench --package trainyard-testkit
	$(CARGO) bench --package trainyard-cli

picture: ## docs/images/run.svg, recorded from a real run (needs Python 3.11 and, the first time, PyPI).
	$(CARGO) build --quiet --package trainyard-cli
	python3 scripts/record.py $$($(CARGO) metadata --format-version 1 --no-deps | \
	  python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')/debug/trainyard docs/images/run.svg
