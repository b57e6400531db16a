//go:build unix

package external

import (
	"os"
	"os/exec"
	"syscall"
)

func init() {
	apart = func(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
	end = func(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
}
