.PHONY: build demo test check long

# Both commands, which name their revision whatever GOFLAGS say of version control.
version := github.com/fedsim/fedsim/internal/version
revision = $(shell git rev-parse HEAD 2>/dev/null)
modified = $(if $(shell git status --porcelain 2>/dev/null),true)
build:
	go build -o . -ldflags '-s -w -X $(version).revision=$(revision) -X $(version).modified=$(modified)' ./cmd/fedsim ./cmd/fednode

# A federation of 22 processes on this machine, with noise; under a minute.
demo:
	deploy/demo.sh

test:
	go test ./...

# What has to pass before a change goes in.
check:
	bash .ci/run

# What also has to pass before a release; see .ci/long.
long:
	bash .ci/long
