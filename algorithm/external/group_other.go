//go:build !unix

package external

import (
	"os"
	"os/exec"
)

func apart(*exec.Cmd) {}

func end(p *os.Process) { _ = p.Kill() }
