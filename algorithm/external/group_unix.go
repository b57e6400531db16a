//go:build unix

package external

import (
	"os"
	"os/exec"
	"syscall"
)

// apart puts a command and the processes that it will start into a group of their own.
func apart(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// end ends a process that started apart, and its group.
func end(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
