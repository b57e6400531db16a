.PHONY: demo test check

# A federation of 22 processes on this machine, with noise; under a minute.
demo:
	deploy/demo.sh

test:
	go test ./...

# What has to pass before a change goes in.
check:
	bash .ci/run
